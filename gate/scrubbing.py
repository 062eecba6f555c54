"""Text that somebody else wrote, made fit for a record that people forward.

What a library says of a fault may hold the password of a database, the
signature of a URL or a megabyte of traceback. Such text passes through here
before it is stored, logged or sent: first secrets are masked, then the middle
is left out, so that no half of a secret remains at the cut.

A pattern that is in doubt masks: a lost word can be looked up where the fault
happened, a leaked password cannot be taken back.
"""

from __future__ import annotations

import re

MESSAGE_CHARACTERS = 2000

_KEYS = (
    "authorization",
    "pass(?:word|wd|phrase)",
    "pwd",
    "secret",
    "token",
    "signature",
    "credential",
    r"\bsig",
    "(?:api|access|private)[_-]?key",
)

# Each repetition is bounded, or ends the text it has consumed, so that the time
# grows with the length of the text and not with its square.
_SECRETS = (
    # A PEM private key, also one that is cut off or written in JSON.
    (
        re.compile(
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}-----|\Z)",
            re.DOTALL,
        ),
        "***",
    ),
    # User and password in a URI (RFC 3986, 3.2.1), also a password with a stray slash.
    (re.compile(r"(?<=://)(?:[^\s@/:]{0,256}:[^\s@]{1,256}|[^\s@/:]{1,256})(?=@)"), "***"),
    # What is sent as `Authorization` (RFC 9110, 11.6.2).
    (re.compile(r"(?i)\b(bearer|basic)\s{1,8}[\w.~+/=-]{8,}"), r"\1 ***"),
    # Tokens known by their shape: JSON Web Tokens, Google's access tokens and API keys.
    (re.compile(r"\b(?:eyJ[\w-]{8,}(?:\.[\w-]*){1,4}|ya29\.[\w.-]+|AIza[\w-]{30,})"), "***"),
    # A value whose key says that it is secret: `PGPASSWORD=…`, `"client_secret": "…"`,
    # `X-Goog-Signature=…`.
    (
        re.compile(
            rf"(?i)((?:{'|'.join(_KEYS)})(?:[_-]\w{{1,30}})?[\"']?\s{{0,8}}[=:]\s{{0,8}})"
            r"(?!(?:bearer|basic) \*\*\*)"
            r"""(?:"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[^\s"']+)"""
        ),
        r"\1***",
    ),
)


def bounded(text: str) -> str:
    """Return the text without secrets and no longer than a record should carry.

    Of a long one the beginning and the end are kept: a message begins with
    where it happened and ends with what to do, and a traceback ends with the
    error itself. Half of a surrogate pair, which no store takes, becomes `?`.
    """
    text = text.encode("utf-8", "replace").decode()
    for pattern, mask in _SECRETS:
        text = pattern.sub(mask, text)
    if len(text) <= MESSAGE_CHARACTERS:
        return text
    half = MESSAGE_CHARACTERS // 2
    return f"{text[:half]}… ({len(text)} characters) …{text[-half:]}"
