"""Documents that fail the build when they lag behind the code."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gate import dead_letters, job
from gate.capacity import BYTES_PER_SECOND, WHOLE_BYTES, WORKING_BYTES
from gate.errors import GateError, SomeLayersError
from gate.events import Malformed
from gate.explain import DEAD_LETTERS
from gate.fetching import FETCHED_EXTENSIONS
from gate.identity import Pin, Revision
from gate.intake import UNSETTLED
from gate.job import MOVES, Limits
from gate.names import Bundle
from gate.outcomes import Outcome
from gate.redrive import Verdict
from gate.shapefile.port import METADATA_LIMIT_BYTES
from gate.shapefile.records import RECORD_FACTOR, RECORD_LIMIT_BYTES
from gate.sinks.address import (
    FORMATS,
    MAX_KEEP,
    ORDERS,
    PARAMETERS,
    WRITER_NEEDED,
    SinkAddress,
)
from gate.sinks.formats import chosen
from gate.sinks.layout import folder
from gate.source.ranges import BLOCK_BYTES
from gate.variables import VARIABLES
from tests.tooling.reference import BRANCHES, DOCUMENTS, kinds, renewed

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]

WORDS = {
    "attempt",
    "bundle",
    "claim",
    "component",
    "crs",
    "dead letter",
    "dispatch",
    "duplicate",
    "feature",
    "fence",
    "generation",
    "heartbeat",
    "held",
    "job",
    "layer",
    "lease",
    "manifest",
    "queued",
    "redrive",
    "report",
    "revision",
    "schema",
    "settle",
    "sidecar",
    "sink",
    "superseded",
    "sweep",
    "task",
}

pytestmark = pytest.mark.project


def anchors(page: Path) -> set[str]:
    """Return the anchors that the headings of a page give it."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.name)
def test_tables_are_those_of_the_code(page: Path) -> None:
    """A page written from the code says what the code says; `make docs` renews it."""
    assert page.read_text() == renewed(page)


def test_every_error_has_a_code_of_its_own() -> None:
    """A code found in a log or a job leads to exactly one error."""
    codes = [kind.code for kind in kinds(GateError)]
    assert len(codes) == len(set(codes))
    assert all(re.fullmatch(r"[a-z_]+", code) for code in codes)


def test_every_error_says_what_to_do() -> None:
    """Each error under a branch has a cure in words, one line, without a full stop."""
    for branch in BRANCHES:
        for kind in kinds(branch):
            assert kind.cure, kind
            assert "\n" not in kind.cure, kind
            assert not kind.cure.endswith("."), kind


def test_the_glossary_has_every_word_in_order() -> None:
    """Each word that the code may use for its notions is explained, alphabetically."""
    text = (ROOT / "docs" / "glossary.md").read_text()
    found = re.findall(r"^\*\*(.+)\.\*\*", text, re.MULTILINE)
    assert {word.lower() for word in found} == WORDS
    assert found == sorted(found, key=str.lower)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Each relative link of a page names a file that exists, and a heading in it."""
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        linked = page.parent / name if name else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page: Path) -> None:
    """Each `make` target that a page names is one of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:`|^ {4}|\n)make ([a-z][a-z-]*)", page.read_text(), re.MULTILINE))
    assert named <= targets


LIBRARY_VARIABLES = {
    "FIRESTORE_EMULATOR_HOST",
    "GATE_REQUIRE_SERVICES",
    "GATE_TOOLS",
    "GDAL_DATA",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_PROJECT",
    "PROJ_DATA",
    "PROJ_LIB",
    "PUBSUB_EMULATOR_HOST",
    "STORAGE_EMULATOR_HOST",
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_variables_exist(page: Path) -> None:
    """Each environment variable that a page names is one that something reads."""
    named = set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", page.read_text()))
    fields = {"OGC_FID"}
    assert named <= LIBRARY_VARIABLES | fields | {variable.name for variable in VARIABLES}


def test_the_limit_of_a_bundle_says_what_is_counted() -> None:
    """The meaning of MAX_BUNDLE_BYTES names every extension that is downloaded, and no other."""
    [meaning] = [each.meaning for each in VARIABLES if each.name == "MAX_BUNDLE_BYTES"]
    named = re.findall(r"`(\.[a-z.]+)`", meaning)
    assert sorted(named) == sorted(FETCHED_EXTENSIONS)
    assert METADATA_LIMIT_BYTES == 1024**2


def test_the_limits_are_those_of_the_code() -> None:
    """The page on limits has the numbers by which a bundle is held or read where it lies."""
    page = (ROOT / "docs" / "limits.md").read_text()
    for said in (
        f"a bundle of up to {WHOLE_BYTES >> 20} MiB |",
        f"{BYTES_PER_SECOND >> 20} MiB for each second of a run",
        f"beside {WORKING_BYTES >> 20} MiB of work",
        f"| one record | {RECORD_LIMIT_BYTES >> 20} MiB, and a {RECORD_FACTOR}th of the memory |",
    ):
        assert said in page
    page = (ROOT / "docs" / "reading.md").read_text()
    assert f"a bundle of more than {WHOLE_BYTES >> 20} MiB are not downloaded" in page
    assert f"requests for {BLOCK_BYTES >> 20} MiB" in page


def test_the_sink_parameters_are_those_of_the_code() -> None:
    """The page on sinks names each parameter with its default, each format, what it needs."""
    page = (ROOT / "docs" / "sinks.md").read_text()
    rows = dict(re.findall(r"^\| `(format|order|keep)` \| (.+) \|$", page, re.MULTILINE))
    default = SinkAddress("bucket")
    assert tuple(rows) == PARAMETERS
    for name, row in rows.items():
        assert row.startswith(f"`{getattr(default, name)}` |")
    assert all(f"`{known}`" in rows["format"] for known in FORMATS)
    assert f"`{ORDERS[1]}`" in rows["order"]
    assert f"0 to {MAX_KEEP}" in rows["keep"]
    assert f"\n    {WRITER_NEEDED}\n" in page
    for form in FORMATS:
        chosen_form = chosen(SinkAddress("bucket", format=form))
        assert f"`{chosen_form.extension}`" in page
        assert f"`{chosen_form.media_type}`" in page


def test_odd_names_are_spelt_as_the_page_says() -> None:
    """The page on configuration says how a folder of the sink is named, to the last digit."""
    text = (ROOT / "docs" / "configuration.md").read_text()
    rule = text.partition("### Names in the sink")[2].partition("\n## ")[0]

    def md5(*lines: str) -> str:
        return hashlib.md5("\n".join(lines).encode(), usedforsecurity=False).hexdigest()

    assert folder("", Bundle("b", "A b/", "c%20#")) == "A b/c%20#/"
    for path, spelt in (("a//", "a/__/b"), ("../", "_.._/b")):
        assert f"`{path}b`" in rule
        assert f"`{spelt}`" in rule
        assert folder("", Bundle("b", path, "b")) == f"{spelt}~{md5('b', f'{path}b')}/"
    assert folder("", Bundle("b", "a\x07/", "b")) == f"a_/b~{md5('b', 'a' + chr(7) + '/b')}/"
    stays = folder("", Bundle("b", "x.zip/", "y"))
    assert stays == f"x.zip/y~{md5('b', 'x.zip/y')}/"
    archive = Bundle("b", "../", "y", ".zip")
    identity = md5("b", "../y", ".zip")
    assert folder("", archive) == f"_.._/y.zip~{identity}/"
    assert folder("", archive, "n/r") == f"_.._/y.zip/n/r~{md5(identity, 'n/r')}/"


def test_the_table_of_outcomes_says_which_are_refused() -> None:
    """Acknowledged are exactly the outcomes after which the entry point returns."""
    failures = {Outcome.QUOTA, Outcome.RETRY, Outcome.MISCONFIGURED, Outcome.CRASHED}
    refused = {outcome for outcome in Outcome if outcome.answer.startswith("refused")}
    assert refused == UNSETTLED | failures
    rest = set(Outcome) - refused
    assert all(outcome.answer.startswith("acknowledged") for outcome in rest)


def test_the_life_of_a_job_is_the_table_of_moves() -> None:
    """The state diagram draws the moves that the code allows, and no others."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    diagram = text.partition("## The life of a job")[2].partition("\n## ")[0]
    drawn = set(re.findall(r"^ +(\w+) --> (\w+)", diagram, re.MULTILINE))
    assert drawn == {(a.value, b.value) for a, moves in MOVES.items() for b in moves}


def fields(heading: str, page: Path) -> set[str]:
    """Return what stands in the first column of the tables under a heading."""
    text = page.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`.+?`) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_every_verdict_on_a_redrive_is_explained() -> None:
    """The page on operations has each verdict, and no other."""
    page = ROOT / "docs" / "operations.md"
    assert fields("Redrive", page) == {verdict.value for verdict in Verdict}


def test_every_field_of_a_letter_is_explained() -> None:
    """The page on operations has each field of a letter, and each state that leads to one."""
    now = datetime(2026, 3, 1, tzinfo=UTC)
    limits = Limits(timedelta(1), 1, timedelta(1))
    revision = Revision.of(Bundle("b", "", "a"), {".shp": Pin("a.shp", 1)})
    opened = job.opened(revision, dispatched_by="", token="", now=now, limits=limits)
    summary = {"layers": {}, "failed_layers": [], "index": ""}
    ended = job.partial(opened, SomeLayersError("x"), now=now, summary=summary)
    written = {*dead_letters.of_job(ended).body, *dead_letters.of_event(Malformed("", "", "")).body}
    states = {state.value for state in DEAD_LETTERS}
    assert fields("Dead letters", ROOT / "docs" / "operations.md") == written | states
