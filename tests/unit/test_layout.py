"""The shape of the code, read from its syntax trees.

Imports point one way: entry points → wiring → use cases → ports ← adapters.
An import inside a function or under TYPE_CHECKING counts like any other.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CORE = (
    "gate.capacity",
    "gate.errors",
    "gate.identity",
    "gate.job",
    "gate.manifest",
    "gate.names",
    "gate.next_look",
    "gate.outcomes",
    "gate.overrides",
    "gate.policies",
    "gate.reasons",
    "gate.scrubbing",
)
VALUES = (
    *CORE,
    "gate.calls",
    "gate.dead_letters",
    "gate.environment",
    "gate.events",
    "gate.gating",
    "gate.log",
    "gate.settings",
    "gate.state",
    "gate.tasking",
    "gate.variables",
)
PORTS = (
    "gate.store.port",
    "gate.store.history",
    "gate.source.port",
    "gate.sinks.port",
    "gate.shapefile.port",
    "gate.tasks.port",
)
USE_CASES = (
    "gate.fetching",
    "gate.handover",
    "gate.ingest",
    "gate.inspect",
    "gate.intake",
    "gate.layers",
    "gate.ledger",
    "gate.listing",
    "gate.look",
    "gate.ownership",
    "gate.poll",
    "gate.publishing",
    "gate.reconcile",
    "gate.redrive",
    "gate.explain",
    "gate.sweep",
    "gate.verify",
    "gate.work",
)

# Which of our modules a module may import; the first pattern that fits decides.
MAY_IMPORT = (
    ("gate", ()),
    ("gate.errors", ()),
    ("gate.names", ("gate.errors",)),
    ("gate.capacity", ("gate.errors", "gate.names")),
    ("gate.identity", CORE),
    ("gate.job", CORE),
    ("gate.manifest", CORE),
    ("gate.next_look", CORE),
    ("gate.overrides", ("gate.errors",)),
    ("gate.policies", ()),
    ("gate.outcomes", ()),
    ("gate.reasons", ()),
    ("gate.scrubbing", ()),
    ("gate.events", CORE),
    ("gate.log", CORE),
    ("gate.calls", ()),
    ("gate.dead_letters", (*CORE, "gate.events", "gate.log")),
    ("gate.variables", ()),
    ("gate.environment", ("gate.errors", "gate.variables")),
    ("gate.gating", ("gate.environment",)),
    (
        "gate.settings",
        (
            *CORE,
            "gate.environment",
            "gate.gating",
            "gate.state",
            "gate.sinks",
            "gate.sinks.address",
            "gate.sinks.postgis_address",
            "gate.store.port",
            "gate.tasking",
            "gate.variables",
        ),
    ),
    ("gate.state", ("gate.environment", "gate.sinks.address")),
    ("gate.tasking", ("gate.environment",)),
    ("gate.shapefile.port", (*CORE, "gate.gather", "gate.sinks.port")),
    ("gate.*.port", CORE),
    ("gate.intake", (*VALUES, *PORTS)),
    ("gate.ownership", (*VALUES, *PORTS)),
    ("gate.heartbeat", ("gate.log",)),
    ("gate.workspace", ()),
    ("gate.fetching", (*VALUES, *PORTS, "gate.source.ranges")),
    ("gate.publishing", (*VALUES, *PORTS, "gate.fetching", "gate.ownership")),
    ("gate.layers", (*VALUES, *PORTS, "gate.ownership", "gate.publishing")),
    (
        "gate.ingest",
        (
            *VALUES,
            *PORTS,
            "gate.fetching",
            "gate.layers",
            "gate.ownership",
            "gate.publishing",
            "gate.workspace",
        ),
    ),
    ("gate.redrive", (*VALUES, *PORTS, "gate.fetching")),
    ("gate.explain", (*VALUES, *PORTS, "gate.redrive")),
    ("gate.handover", (*VALUES, *PORTS)),
    ("gate.work", (*VALUES, *PORTS, "gate.ingest", "gate.intake", "gate.poll")),
    ("gate.ledger", (*VALUES, "gate.ingest", "gate.intake")),
    ("gate.reconcile", (*VALUES, *PORTS, "gate.intake")),
    ("gate.listing", (*VALUES, *PORTS)),
    ("gate.look", (*VALUES, *PORTS, "gate.intake", "gate.listing")),
    ("gate.poll", (*VALUES, *PORTS, "gate.intake", "gate.listing")),
    ("gate.verify", (*VALUES, *PORTS, "gate.intake", "gate.listing")),
    ("gate.sweep", (*VALUES, *PORTS, "gate.handover", "gate.look", "gate.reconcile")),
    ("gate.inspect", (*VALUES, *PORTS, "gate.fetching", "gate.layers")),
    ("gate.inspect_text", ("gate.inspect", "gate.terminal")),
    ("gate.operations_text", (*VALUES, *USE_CASES, "gate.terminal")),
    ("gate.operations", ("gate.*",)),
    ("gate.memory", ()),
    ("gate.terminal", ()),
    ("gate.crc32c", ()),
    ("gate.gather", ()),
    ("gate.pubsub", VALUES),
    ("gate.cloud_storage", (*CORE, "gate.source.port", "gate.crc32c")),
    ("gate.store.cloud_objects", (*CORE, "gate.store.objects", "gate.cloud_storage")),
    ("gate.store*", (*CORE, "gate.store.*")),
    (
        "gate.source*",
        (*CORE, "gate.source.*", "gate.cloud_storage", "gate.crc32c", "gate.gather"),
    ),
    ("gate.tasks*", (*CORE, "gate.tasking", "gate.tasks.*")),
    ("gate.sinks.address", CORE),
    ("gate.sinks.postgis_address", CORE),
    (
        "gate.sinks.cloud_storage",
        (
            *CORE,
            "gate.log",
            "gate.sinks.*",
            "gate.cloud_storage",
            "gate.crc32c",
            "gate.workspace",
        ),
    ),
    (
        "gate.sinks*",
        (*CORE, "gate.sinks.*", "gate.cloud_storage", "gate.crc32c", "gate.gather"),
    ),
    ("gate.shapefile*", (*CORE, "gate.gather", "gate.sinks.port", "gate.shapefile.*")),
    ("gate.doctor*", (*VALUES, "gate.doctor.*", "gate.sinks.address", "gate.store.documents")),
    ("gate.wiring", ("gate.*",)),
    (
        "gate.local.view",
        (
            *VALUES,
            "gate.cloud_storage",
            "gate.sinks.address",
            "gate.sinks.layout",
            "gate.store.blobs",
            "gate.store.cloud_objects",
            "gate.store.firestore",
            "gate.store.port",
        ),
    ),
    ("gate.local*", (*VALUES, "gate.local.*")),
    (
        "gate.maintenance",
        ("gate.settings", "gate.wiring", "gate.reconcile", "gate.cli", "gate.terminal"),
    ),
    ("gate.cli", ("gate.*",)),
    ("gate.__main__", ("gate.cli",)),
    ("main", ("gate.wiring", *VALUES, "gate.intake", "gate.ledger")),
)

# Only another entry point may import one of these, whatever the table says.
ENTRY_POINTS = ("main", "gate.cli", "gate.maintenance", "gate.__main__", "gate.local*")

# Which modules may import a third-party client: the one that uses it and
# translates its errors, and wiring, which builds it. The local stack makes its
# topics with clients of its own.
CLIENTS = {
    "cloudevents": ("main",),
    "fiona": (
        "gate.shapefile.crs",
        "gate.shapefile.features",
        "gate.shapefile.reader",
        "gate.shapefile.ready",
    ),
    "flask": ("main",),
    "functions_framework": ("main",),
    "google.api_core": (
        "gate.cloud_storage",
        "gate.local.topics",
        "gate.pubsub",
        "gate.store.cloud_objects",
        "gate.store.firestore",
        "gate.store.firestore_agenda",
        "gate.store.firestore_history",
        "gate.tasks.cloud_tasks",
    ),
    "google.auth": (
        "gate.cloud_storage",
        "gate.pubsub",
        "gate.store.firestore",
        "gate.tasks.cloud_tasks",
    ),
    "google.cloud.firestore": (
        "gate.store.firestore",
        "gate.store.firestore_agenda",
        "gate.store.firestore_history",
        "gate.wiring",
    ),
    "google.cloud.pubsub_v1": ("gate.pubsub",),
    "google.cloud.storage": (
        "gate.cloud_storage",
        "gate.store.cloud_objects",
        "gate.wiring",
    ),
    "google.cloud.tasks_v2": ("gate.local.task_queue", "gate.tasks.cloud_tasks"),
    "google.protobuf": ("gate.local.topics",),
    "google.pubsub_v1": ("gate.local.topics",),
    "google_crc32c": ("gate.crc32c",),
    "grpc": ("gate.local.task_queue", "gate.local.topics", "gate.tasks.cloud_tasks"),
    "pgpq": ("gate.sinks.postgis_database",),
    "psycopg": ("gate.sinks.postgis_database",),
    "pyogrio": ("gate.sinks.ogr",),
    "pyproj": ("gate.shapefile.projection",),
    "requests": ("gate.cloud_storage",),
    "urllib3": ("gate.cloud_storage",),
    "werkzeug": ("main",),
}

# Libraries that compute and hold no connection.
LIBRARIES = ("numpy", "pyarrow", "shapely")

# What the pure core may use of the standard library: nothing that reads a
# clock, an environment, a file or a network.
PURE = (
    "__future__",
    "collections",
    "dataclasses",
    "datetime",
    "enum",
    "functools",
    "hashlib",
    "itertools",
    "re",
    "typing",
    "unicodedata",
)


def modules() -> dict[str, ast.Module]:
    """Return module name → syntax tree for main.py and everything in gate."""
    trees = {}
    for path in [ROOT / "main.py", *sorted((ROOT / "gate").rglob("*.py"))]:
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        trees[name] = ast.parse(path.read_text(), str(path))
    return trees


MODULES = modules()


def imports(module: str) -> Iterator[str]:
    """Yield the dotted name of everything that a module imports, at any depth."""
    for node in ast.walk(MODULES[module]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def ours(imported: str) -> str | None:
    """Return which of our modules an import names, `None` if it is none of ours."""
    if imported in MODULES:
        return imported
    parent = imported.rpartition(".")[0]
    return parent if parent in MODULES else None


def fits(name: str, patterns: tuple[str, ...]) -> bool:
    """Tell whether a module name fits one of the patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def client(imported: str) -> str | None:
    """Return the longest client that an import belongs to, `None` if to none."""
    owners = [name for name in CLIENTS if f"{imported}.".startswith(f"{name}.")]
    return max(owners, key=len, default=None)


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_one_way(module: str) -> None:
    """A module imports only what the table allows to its layer."""
    allowed = next((allowed for pattern, allowed in MAY_IMPORT if fits(module, (pattern,))), None)
    assert allowed is not None, f"{module} has no row in the table"
    found = {ours(imported) for imported in imports(module)} - {None, module, "gate"}
    assert not [name for name in found if name and not fits(name, allowed)]


@pytest.mark.parametrize("module", [name for name in MODULES if not fits(name, ENTRY_POINTS)])
def test_nothing_imports_an_entry_point(module: str) -> None:
    """Entry points stand at the top: only another entry point may import one."""
    found = {ours(imported) for imported in imports(module)} - {None}
    assert not [name for name in found if name and fits(name, ENTRY_POINTS)]


@pytest.mark.parametrize("module", MODULES)
def test_a_client_is_imported_only_by_its_own_module(module: str) -> None:
    """A third-party client, and so its errors, stay inside the module named for it."""
    for imported in imports(module):
        name = client(imported)
        assert name is None or module in CLIENTS[name], f"{module} imports {imported}"


@pytest.mark.parametrize("module", MODULES)
def test_every_import_is_known(module: str) -> None:
    """What is neither ours nor of the standard library is a named client or library."""
    for imported in imports(module):
        top = imported.partition(".")[0]
        known = top in sys.stdlib_module_names or top in LIBRARIES
        assert known or ours(imported) or client(imported), f"{module} imports {imported}"


@pytest.mark.parametrize("module", CORE)
def test_the_core_is_pure(module: str) -> None:
    """The core can read no clock, environment, file or network."""
    outside = [imported for imported in imports(module) if not ours(imported)]
    assert not [imported for imported in outside if imported.partition(".")[0] not in PURE]
    called = {
        node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        for node in ast.walk(MODULES[module])
        if isinstance(node, ast.Call)
    }
    assert not called & {"now", "utcnow", "today", "open", "input", "print"}


@pytest.mark.parametrize("module", MODULES)
def test_no_code_is_made_from_text(module: str) -> None:
    """Nothing evaluates text or unpickles: what is read can never become code."""
    names = {node.id for node in ast.walk(MODULES[module]) if isinstance(node, ast.Name)}
    assert not names & {"eval", "exec", "compile", "__import__"}
    tops = {imported.partition(".")[0] for imported in imports(module)}
    assert not tops & {"pickle", "marshal", "shelve", "dill", "cloudpickle"}


def handlers() -> list[ast.FunctionDef]:
    """Return the functions of main.py that the framework calls with an event."""
    return [
        node
        for node in MODULES["main"].body
        if isinstance(node, ast.FunctionDef)
        and any(
            "functions_framework.cloud_event" in ast.unparse(mark) for mark in node.decorator_list
        )
    ]


def test_handlers_of_events_return_nothing() -> None:
    """A13: no handler returns a value, so nothing but an exception can refuse an event."""
    assert [handler.name for handler in handlers()] == ["ingest"]
    returned = [
        f"{handler.name}: {ast.unparse(node)}"
        for handler in handlers()
        for node in ast.walk(handler)
        if isinstance(node, ast.Return) and node.value is not None
    ]
    assert not returned
