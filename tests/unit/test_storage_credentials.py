"""Credentials that cannot be had, from google-auth's own classes, without a service."""

from __future__ import annotations

import time
from typing import Any

import pytest
from google.auth import compute_engine
from google.auth import exceptions as auth
from google.auth.transport.requests import AuthorizedSession
from google.cloud import storage
from google.oauth2 import credentials as oauth2

from gate.cloud_storage import CloudStorage
from gate.errors import GateError, PermissionDeniedError, StorageBusyError


class Answer:
    """What the server of tokens answers: no token."""

    status = 400
    headers: dict[str, str] = {"content-type": "application/json"}  # noqa: RUF012
    data = b'{"error": "invalid_grant", "error_description": "revoked"}'


def unreachable(*_: object, **__: object) -> Answer:
    """Answer no request."""
    raise auth.TransportError("no route to host")


def refusing(*_: object, **__: object) -> Answer:
    """Refuse every request."""
    return Answer()


def user() -> Any:
    """Return credentials of a person, which have to be refreshed."""
    return oauth2.Credentials(
        None,
        refresh_token="r",
        token_uri="https://tokens.invalid",
        client_id="c",
        client_secret="s",
    )


def machine() -> Any:
    """Return the credentials of a function, which the metadata server gives out."""
    return compute_engine.Credentials(universe_domain="googleapis.com")


@pytest.mark.parametrize(
    ("made", "server", "error"),
    [
        (machine, unreachable, StorageBusyError),
        (user, unreachable, StorageBusyError),
        (user, refusing, PermissionDeniedError),
    ],
    ids=["metadata server away", "token server away", "revoked"],
)
def test_only_refused_credentials_are_a_matter_of_permission(
    monkeypatch: pytest.MonkeyPatch, made: Any, server: Any, error: type[GateError]
) -> None:
    """D6: whoever cannot be asked for credentials may be asked later; a bundle is not at fault."""
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    credentials = made()
    session = AuthorizedSession(credentials, auth_request=server)
    client = storage.Client(project="p", credentials=credentials, _http=session)
    cloud = CloudStorage(client, retry_seconds=0)
    with pytest.raises(GateError) as caught:
        cloud.stat("bucket", "name")
    assert type(caught.value) is error
