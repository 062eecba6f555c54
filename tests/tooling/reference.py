"""Write the tables of docs/architecture.md, configuration.md, differences.md and errors.md.

`python -m tests.tooling.reference` (or `make docs`) rewrites what stands between
the two markers of each file from the code; tests/unit/test_docs.py fails when that is due.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from gate import environment, errors, reasons, variables
from gate.outcomes import Outcome
from tests.differences import DIFFERENCES, Difference

ROOT = Path(__file__).parents[2]
BEGIN = "<!-- written by `make docs`: begin -->"
END = "<!-- written by `make docs`: end -->"

BRANCHES = {
    errors.TransientError: "Passes by itself",
    errors.BundleError: "The bundle is at fault",
    errors.HeldError: "A fact is missing",
    errors.ConfigurationError: "The deployment is at fault",
}


# What a report says of a layer that is published all the same.
REPORTED = {
    "Rows that are not loaded": reasons.REJECTS,
    "Values that are altered": reasons.VALUES,
    "Notices": reasons.NOTICES,
    "What the form of a dataset cannot hold": reasons.LOSSES,
}


def kinds(branch: type[errors.GateError]) -> Iterator[type[errors.GateError]]:
    """Yield a class and those below it, in the order of the source; not those of tests."""
    yield branch
    for below in branch.__subclasses__():
        if below.__module__ in {errors.__name__, environment.__name__}:
            yield from kinds(below)


def summary(kind: type[errors.GateError]) -> str:
    """Return the docstring of an error up to its first blank line, on one line."""
    return " ".join((kind.__doc__ or "").partition("\n\n")[0].split())


def table(*rows: tuple[str, ...]) -> str:
    """Return a Markdown table; the first row is its head."""
    head, *body = (
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows
    )
    return "\n".join([head, "|" + " --- |" * len(rows[0]), *body])


def errors_table() -> str:
    """Return one table per branch of the error tree, then those of a report's reasons."""
    sections = {title: list(kinds(branch)) for branch, title in BRANCHES.items()}
    rest = [kind for kind in errors.GateError.__subclasses__() if kind not in BRANCHES]
    sections["The event is at fault"] = rest
    parts = []
    for title, members in sections.items():
        rows = [(f"`{kind.code}`", summary(kind), kind.cure) for kind in members]
        parts.append(f"## {title}\n\n{table(('Code', 'What happened', 'What to do'), *rows)}")
    for title, listed in REPORTED.items():
        rows = [(f"`{reason.code}`", reason.meaning, reason.cure) for reason in listed]
        parts.append(f"## {title}\n\n{table(('Code', 'What happened', 'What to do'), *rows)}")
    return "\n\n".join(parts)


def configuration_table() -> str:
    """Return the table of environment variables: name, default, meaning."""
    rows = [
        (
            f"`{variable.name}`",
            f"`{variable.default}`" if variable.default else "",
            variable.meaning,
        )
        for variable in variables.VARIABLES
    ]
    return table(("Variable", "Default", "Meaning"), *rows)


def outcomes_table() -> str:
    """Return the table of what may become of a delivery."""
    rows = [(f"`{outcome.value}`", outcome.meaning, outcome.answer) for outcome in Outcome]
    return table(("Outcome", "Meaning", "Answer"), *rows)


def differences_table() -> str:
    """Return the table of what Fiona loses: field, what is stored, what either way reads."""
    head = ("What happens", "Field", "In the file", "Read from the bytes", "Read by Fiona")
    return table(head, *map(_difference, DIFFERENCES))


def _difference(each: Difference) -> tuple[str, ...]:
    fields = ", ".join(f"`{field}`" for field in each.fields)
    there = each.there if isinstance(each.there, str) else _values(each.there.values())
    here = _values(each.here.values()) + (", counted" if each.counted else "")
    return (each.what, fields, _values(each.cells), here, there)


def _values(values: Iterable[Any]) -> str:
    return ", ".join("null" if value is None else f"`{_spelled(value)}`" for value in values)


def _spelled(value: Any) -> str:
    if isinstance(value, (bytes, str)):
        content = value if isinstance(value, bytes) else value.encode("unicode_escape")
        return f'"{content.decode("ascii", "backslashreplace")}"'
    return str(value)


DOCUMENTS = {
    ROOT / "docs" / "architecture.md": outcomes_table,
    ROOT / "docs" / "configuration.md": configuration_table,
    ROOT / "docs" / "differences.md": differences_table,
    ROOT / "docs" / "errors.md": errors_table,
}


def renewed(path: Path) -> str:
    """Return the text of a document with its table made anew."""
    before, _, rest = path.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n\n{DOCUMENTS[path]()}\n\n{END}{after}"


if __name__ == "__main__":
    for document in DOCUMENTS:
        document.write_text(renewed(document))
