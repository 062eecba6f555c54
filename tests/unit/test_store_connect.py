"""Opening Firestore where that is not possible."""

from __future__ import annotations

from pathlib import Path

import pytest

from gate.errors import ConfigurationError
from gate.store.firestore import connect


def test_missing_credentials_are_the_deployments_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """D6: without credentials nothing is acknowledged, and the message says what to do."""
    monkeypatch.delenv("FIRESTORE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "absent.json"))
    with pytest.raises(ConfigurationError, match="set GOOGLE_CLOUD_PROJECT and log in"):
        connect("(default)")
