"""What Terraform says twice, held to what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gate.store.documents import QUERIED, UNINDEXED
from gate.variables import VARIABLES

TERRAFORM = Path(__file__).parents[2] / "terraform"

pytestmark = pytest.mark.project


def block(file: str, opening: str) -> str:
    """Return the lines of a file from the one that begins with `opening` to the next bracket."""
    text = (TERRAFORM / file).read_text()
    found = re.search(
        rf"^ *{re.escape(opening)}.*?\n(.*?)^ *[\]}}]", text, re.MULTILINE | re.DOTALL
    )
    assert found, opening
    return found[1]


def test_every_setting_can_be_deployed() -> None:
    """Terraform sets each setting of the code or lets it be set, and knows no other.

    A setting that is added to the code goes into the list of the variable
    `settings` in terraform/variables.tf, or into the environment in functions.tf.
    """
    functions = (TERRAFORM / "functions.tf").read_text()
    environment = functions.partition("environment = merge(\n")[2].partition("\n  )\n")[0]
    own = set(re.findall(r"\b([A-Z][A-Z_]+) += ", environment))
    stated = re.findall(r'"([A-Z_]+)"', block("variables.tf", "condition = alltrue([for name in"))
    assert not own & set(stated)
    known = {variable.name for variable in VARIABLES}
    assert own | set(stated) == known
    assert stated == sorted(stated)


def exempt_by_terraform() -> dict[str, set[str]]:
    """Return collection → fields without an index, as firestore.tf has them."""
    unindexed = (TERRAFORM / "firestore.tf").read_text().partition("  unindexed = {")[2]
    lists = re.findall(r"^ +(\w+) += \[([^\]]*)\]", unindexed.partition("\n  }")[0], re.MULTILINE)
    return {name: {"expires_at", *re.findall(r'"(\w+)"', fields)} for name, fields in lists}


def exempt_by_gcloud() -> dict[str, set[str]]:
    """Return the same as the page on deployment has it."""
    text = (TERRAFORM.parent / "docs" / "deploy.md").read_text().replace("\\\n", " ")
    lists = re.findall(r"^unindexed (\w+) (.+)$", text, re.MULTILINE)
    return {name: set(fields.split()) for name, fields in lists}


def test_what_is_not_indexed_is_what_nobody_asks_for() -> None:
    """F12: both ways to deploy exempt the fields that the code lists, and none that is queried."""
    listed = {name: set(fields) for name, fields in UNINDEXED.items()}
    assert exempt_by_terraform() == listed
    assert exempt_by_gcloud() == listed
    assert not [name for name, fields in QUERIED.items() if listed[name] & set(fields)]


def test_each_alert_leads_to_a_heading() -> None:
    """Issue 6: the text of each alert links to a heading of the page on operations.

    Both ways to deploy make each of them, and no other.
    """
    files = [*(TERRAFORM / "monitoring").glob("alerts/*.json")]
    files += (TERRAFORM / "monitoring").glob("tasks/*-failing.json")
    alerts = {file.stem: file.read_text() for file in files}
    for name, text in alerts.items():
        assert "](${runbook}#" + name + ")" in text
    docs = TERRAFORM.parent / "docs"
    headings = re.findall(r"^### (.+)$", (docs / "operations.md").read_text(), re.MULTILINE)
    assert alerts.keys() <= {heading.lower().replace(" ", "-") for heading in headings}
    commands = (docs / "deploy.md").read_text().replace("\\\n", " ")
    looped = re.search(r"^for name in (dead-.+);", commands, re.MULTILINE)
    assert looped
    alone = re.findall(r"^alert tasks/(.+)$", commands, re.MULTILINE)
    assert alerts.keys() == {*looped[1].split(), *alone}
