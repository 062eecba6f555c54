"""What the cloud says, asked through the gcloud command.

The person's own login counts, and whoever has none can save the answers to
files. Nothing is ever changed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

from gate.errors import ConfigurationError

ANSWER_SECONDS = 60.0


def ask(*arguments: str) -> Any:
    """Return what a gcloud command prints as JSON.

    Raises `ConfigurationError` if gcloud is missing, refuses or does not answer.
    """
    gcloud = shutil.which("gcloud")
    where = " ".join(("gcloud", *arguments))
    if gcloud is None:
        raise ConfigurationError("command not found", where="gcloud", cure="install it")
    try:
        answer = subprocess.run(  # noqa: S603  a list, so that no shell reads the names
            [gcloud, *arguments, "--format=json", "--quiet"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError("no answer", where=where, cure="try it by hand") from error
    if answer.returncode:
        said = " ".join(answer.stderr.split()).removeprefix("ERROR: ")
        raise ConfigurationError(said or "it failed", where=where, cure="try it by hand")
    return json.loads(answer.stdout)
