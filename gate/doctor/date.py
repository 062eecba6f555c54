"""What time a server of Cloud Storage says it is."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from gate.errors import ConfigurationError

ANSWER_SECONDS = 10.0
CLOUD = "https://storage.googleapis.com"


def asked() -> tuple[datetime, datetime]:
    """Return the time of Cloud Storage, or of its emulator, and the time here.

    It is whole seconds. Raises `ConfigurationError` if there is no answer.
    """
    address = os.environ.get("STORAGE_EMULATOR_HOST") or CLOUD
    address = address if "//" in address else f"http://{address}"
    request = urllib.request.Request(address, method="HEAD")  # noqa: S310  it is one of the two
    try:
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:  # noqa: S310
                stated = answer.headers["Date"]
        except urllib.error.HTTPError as error:
            stated = error.headers["Date"]
        return parsedate_to_datetime(stated or ""), datetime.now(UTC)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"no answer with a date ({error})",
            where=address,
            cure="see to the network of this machine",
        ) from error
