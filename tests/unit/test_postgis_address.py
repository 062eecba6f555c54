"""The address of a PostGIS sink: what it may say, how it is refused, and what it never shows."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from gate import settings
from gate.environment import SettingsError
from gate.errors import ConfigurationError
from gate.sinks.postgis_address import DatabaseAddress, Mode, parse

PLAIN = {"host": "db", "port": 5432, "database": "gis"}


@pytest.mark.parametrize(
    ("uri", "fields"),
    [
        ("postgresql://db/gis", {}),
        ("postgres://db/gis", {}),
        ("postgresql://db:6543/gis", {"port": 6543}),
        ("postgresql://me@db/gis", {"user": "me"}),
        ("postgresql://me:p%40ss%20%23@db/gis", {"user": "me", "password": "p@ss #"}),
        ("postgresql://[::1]/gis", {"host": "::1"}),
        ("postgresql:///gis?host=/cloudsql/p:r:i", {"host": "/cloudsql/p:r:i"}),
        ("postgresql://db/my%20gis", {"database": "my gis"}),
        ("postgresql://db/gis?schema=Geo%20Data", {"schema": "Geo Data"}),
        ("postgresql://db/gis?table=lyr_{stem}_x", {"table": "lyr_{stem}_x"}),
        ("postgresql://db/gis?table=all&mode=append", {"table": "all", "mode": Mode.APPEND}),
        ("postgresql://db/gis?mode=replace", {"mode": Mode.REPLACE}),
        (
            "postgresql://db/gis?sslmode=verify-full&sslrootcert=/ca.pem",
            {"options": (("sslmode", "verify-full"), ("sslrootcert", "/ca.pem"))},
        ),
    ],
)
def test_an_address_is_read(uri: str, fields: dict[str, Any]) -> None:
    """Issue 4: place, user, schema, template, mode and TLS options are read, or have defaults."""
    assert parse(uri) == DatabaseAddress(**{**PLAIN, **fields})


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("postgresql:///gis", "names no host"),
        ("postgresql://db", "'' is no database name"),
        ("postgresql://db/a/b", "'a/b' is no database name"),
        ("postgresql://db:port/gis", "its port is no number"),
        ("postgresql://db:99999/gis", "its port is no number"),
        ("postgresql://db/gis#x", "has a # behind it"),
        ("postgresql://db/gis%00", "holds a NUL"),
        ("postgresql://db/gis?schema=", "schema '' is no name"),
        ("postgresql://db/gis?schema=pg_x", "schema 'pg_x' is no name"),
        (f"postgresql://db/gis?schema={'é' * 32}", "is no name for a schema"),
        ("postgresql://db/gis?mode=upsert", "mode 'upsert' is unknown, there are replace, append"),
        ("postgresql://db/gis?sslmode=on", "sslmode 'on' is unknown"),
        ("postgresql://db/gis?colour=red", "parameter colour is unknown"),
        ("postgresql://db/gis?password=x", "parameter password is unknown"),
        ("postgresql://db/gis?mode=append&mode=append", "parameter mode is given twice"),
        ("postgresql://db/gis?table=parcels", "which needs mode=append"),
        ("postgresql://db/gis?table=", "table '' is no template"),
        ("postgresql://db/gis?table={folder}", "table '{folder}' is no template"),
        ("postgresql://db/gis?table=_x{name}", "is no template"),
        ("postgresql://db/gis?table=X{name}", "is no template"),
        ('postgresql://db/gis?table=x"{name}', "is no template"),
        (f"postgresql://db/gis?table={'x' * 31}{{name}}", "is no template: up to 31"),
        ("postgresql://db/gis?table={name}{stem}", "has more than one placeholder"),
    ],
)
def test_a_wrong_address_is_refused(uri: str, problem: str) -> None:
    """Every mistake is named, with an example of how to write it."""
    with pytest.raises(ConfigurationError) as caught:
        parse(uri)
    assert problem in caught.value.what
    assert caught.value.todo.startswith("write it like postgresql://")


def test_all_mistakes_are_told_at_once_and_no_password_is() -> None:
    """Issue 4: whoever mends an address need not deploy once per mistake; secrets stay secret."""
    uri = "postgresql://me:hunter2@db/a/b?schema=pg_&mode=x&sslmode=y&table=é&colour=red"
    with pytest.raises(SettingsError) as caught:
        settings.load({"SINK": uri})
    (problem,) = caught.value.problems
    assert problem.count("; ") == 6
    assert problem.startswith("SINK: 'a/b' is no database name; ")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://me:hunter2@db:x/gis",
        "postgresql://me:hunter2@[/x",
        "postgresql://me:hunter2#x@db/gis",
        "postgresql://me:hunter2/x@db/gis",
        "postgresql://me:1/hunter2@db/gis",
        "postgresql://me:1?hunter2@db/gis",
        "postgresql://me:1#hunter2@db/gis",
        "postgresql://hunter2@db/gis?mode=x",
        "postgresql://db/gis?password=hunter2",
        "postgresql://db/gis?user=me&pass=hunter2",
        "postgresql://db/gis?sslpassword=hunter2",
        "postgis://me:hunter2@db/gis",
        "POSTGRESQL://me:hunter2@db/gis",
        "postgresql:/me:hunter2@db/gis",
        "postgresql+psycopg://me:hunter2@db/gis",
        "host=db user=me password=hunter2",
        "gs://me:hunter2@datasets/out",
        "gs://datasets/out?token=hunter2",
    ],
)
def test_what_is_refused_shows_no_password(uri: str) -> None:
    """Issue 4: a crash at start-up is logged by the platform as it is: no secret is in it."""
    with pytest.raises(SettingsError) as caught:
        settings.load({"SINK": uri})
    assert "write it like " in str(caught.value)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("postgresql://me:hunter2@db/gis", "postgresql://db:5432/gis"),
        ("postgresql://me@[::1]:1/my%20gis", "postgresql://[::1]:1/my%20gis"),
        ("postgresql:///gis?host=/cloudsql/p", "postgresql://%2Fcloudsql%2Fp:5432/gis"),
    ],
)
def test_an_address_shows_neither_user_nor_password(uri: str, shown: str) -> None:
    """Issue 4: what is printed, logged or stored names the place and no secret."""
    address = parse(uri)
    assert str(address) == shown
    assert "hunter2" not in repr(address)


def test_the_connection_is_told_what_the_address_says() -> None:
    """What is not stated is left to libpq: a password to PGPASSWORD, a user to its default."""
    told = parse("postgresql://me:p@db/gis?sslmode=require&schema=x").connection
    assert told == {
        "host": "db",
        "port": "5432",
        "dbname": "gis",
        "user": "me",
        "password": "p",
        "sslmode": "require",
    }
    assert set(parse("postgresql://db/gis").connection) == {"host", "port", "dbname"}


def test_a_database_is_a_sink_that_is_in_no_bucket() -> None:
    """B8: with tables as output, nothing in any bucket counts as output."""
    loaded = settings.load({"SINK": "postgresql://db/gis", "SOURCE_BUCKET": "uploads"})
    assert isinstance(loaded.sink, DatabaseAddress)
    assert loaded.output_prefix("uploads") is None
    assert loaded.output_prefix("") is None
    assert not loaded.swallows("uploads")
