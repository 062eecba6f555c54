"""Text for records: without secrets, whatever its length."""

from __future__ import annotations

import pytest

from gate.scrubbing import MESSAGE_CHARACTERS, bounded

PEM = "-----BEGIN RSA PRIVATE KEY-----\nhunter2hunter2\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("message", "scrubbed"),
    [
        ("postgresql://gate:hunter2@db/gis", "postgresql://***@db/gis"),
        ("postgresql://gate:hun/ter2@db/gis", "postgresql://***@db/gis"),
        ("https://:hunter2@host/x", "https://***@host/x"),
        ("https://hunter2@host/x", "https://***@host/x"),
        ("Authorization: Bearer abcdefgh12345678", "Authorization: Bearer ***"),
        ("Authorization: hunter2", "Authorization: ***"),
        ("basic dXNlcjpodW50ZXIy", "basic ***"),
        ("password=hunter2 next", "password=*** next"),
        ("PGPASSWORD=hunter2 psql", "PGPASSWORD=*** psql"),
        ("password='hunter2 with blanks' dbname=gis", "password=*** dbname=gis"),
        ("PWD: hunter2", "PWD: ***"),
        ("api-key = hunter2", "api-key = ***"),
        ("api_key=hunter2&x=1", "api_key=***"),
        ("token=hunter2 secret: hunter2", "token=*** secret: ***"),
        ("secret_access_key=hunter2", "secret_access_key=***"),
        ('{"client_secret": "hun\\"ter2", "a": 1}', '{"client_secret": ***, "a": 1}'),
        ("{'password': 'hunter2'}", "{'password': ***}"),
        ("{'password=hunter2'}", "{'password=***'}"),
        (f"key: {PEM} end", "key: *** end"),
        (PEM[:40], "***"),
        (f'{{"private_key": "{PEM}"}}', '{"private_key": ***}'),
        ("https://s/b/o?X-Goog-Signature=0a1b", "https://s/b/o?X-Goog-Signature=***"),
        ("https://s/b/o?X-Goog-Credential=a%40b&c=1", "https://s/b/o?X-Goog-Credential=***"),
        ("https://s/b/o?sv=1&sig=hunter2", "https://s/b/o?sv=1&sig=***"),
        ("got ya29.a0-hunter2 here", "got *** here"),
        ("key AIza" + "x" * 35, "key ***"),
        ("jwt eyJhbGciOiJI.eyJzdWIi.c2ln!", "jwt ***!"),
    ],
)
def test_secrets_do_not_reach_a_record(message: str, scrubbed: str) -> None:
    """G10: credentials in URIs, tokens, private keys, signatures and secret values are masked."""
    assert bounded(message) == scrubbed


@pytest.mark.parametrize(
    "message",
    [
        "https://storage.example/in/roads.shp",
        "gs://uploads/in/a:b@c.shp",
        "the bearer of news",
        "tokens are counted",
        "roads.shp: read 498 of 1000 records; upload the file again",
        "the design: config=1",
    ],
)
def test_other_text_is_kept(message: str) -> None:
    """G10: what only looks a little like a secret stays as it is."""
    assert bounded(message) == message


def test_a_long_message_keeps_both_ends() -> None:
    """G10, F11: of a traceback of a megabyte the beginning, the end and the length remain."""
    assert bounded("x" * MESSAGE_CHARACTERS) == "x" * MESSAGE_CHARACTERS
    cut = bounded(f"roads.shp: {'x' * 1_000_000}; upload the file again")
    assert cut.startswith("roads.shp: xxx")
    assert "… (1000034 characters) …" in cut
    assert cut.endswith("xxx; upload the file again")
    assert len(cut) < MESSAGE_CHARACTERS + 50


@pytest.mark.parametrize("before", [995, 5_000])
def test_a_secret_at_the_cut_is_masked_first(before: int) -> None:
    """G10: masking comes before cutting, so half a secret cannot survive at either end."""
    message = "x" * before + " password=hunter2 " + "y" * 995
    assert "hunter" not in bounded(message)
    assert "ter2" not in bounded(message)


@pytest.mark.parametrize(
    "unit", ["://a:", "a-", "password=", 'secret="', "-----BEGIN PRIVATE KEY-----", "eyJaaaaaaaa."]
)
def test_no_text_takes_time_beyond_its_length(unit: str) -> None:
    """G10: text of a megabyte that nearly fits a pattern at every place is masked and cut too."""
    assert len(bounded(unit * (1_000_000 // len(unit)))) < MESSAGE_CHARACTERS + 50


def test_half_a_character_does_not_keep_a_record_from_being_stored() -> None:
    """G10: a lone surrogate, which has no UTF-8 form, is replaced."""
    assert bounded("a\ud800b") == "a?b"
