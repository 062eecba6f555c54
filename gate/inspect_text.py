"""What was inspected, for a person or for a machine. Pure text, nothing is printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gate.inspect import Inspected, Problem, Severity
from gate.terminal import safe

SHOWN_ROWS = 10
_LABEL_CHARACTERS = 10
# What a report counts of its geometries, as a person is told of it.
_ODD = {
    "null": "null",
    "empty": "empty",
    "not_finite": "not finite",
    "collapsed": "collapsed",
    "measures_dropped": "without their M values",
    "heights_dropped": "without their Z values",
}
_COLUMN_CHARACTERS = 32


def as_json(inspected: Sequence[Inspected]) -> str:
    """Return everything as one JSON object, in ASCII; `clean` is what the exit code says.

    Bytes of a path that are no text (surrogates in Python) become U+FFFD, for strict
    readers refuse half a pair.
    """
    content = {
        "clean": all(each.clean for each in inspected),
        "layers": [
            {
                "source": each.source,
                "layer": each.layer,
                "clean": each.clean,
                "problems": [_plain(problem) for problem in each.problems],
                "report": each.report,
            }
            for each in inspected
        ],
    }
    plain = json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False)
    whole = re.sub("[\ud800-\udfff]", "\ufffd", plain)
    return re.sub(r"[^\x00-\x7f]+", lambda found: json.dumps(found[0])[1:-1], whole)


def as_text(inspected: Sequence[Inspected]) -> str:
    """Return one block for each layer, and a last line that sums up."""
    blocks = ["\n".join(_block(each)) for each in inspected]
    return "\n\n".join([*blocks, _summed_up(inspected)])


def _block(inspected: Inspected) -> Iterator[str]:
    yield safe(inspected.source)
    if inspected.layer:
        yield from _entry("layer", [inspected.layer])
    if inspected.report is not None:
        yield from _read(inspected.report)
    lines = [line for problem in inspected.problems for line in _complaint(problem)]
    yield from _entry("problems", lines or ["none"])


def _read(report: Mapping[str, Any]) -> Iterator[str]:
    rows, geometry = report["rows"], report["geometry"]
    counts = ", ".join(f"{rows[name]:,} {name}" for name in ("loaded", "deleted", "rejected"))
    yield from _entry("rows", [f"{rows['in_file']:,} in the file: {counts}"])
    types = ", ".join(geometry["types"]) or "none"
    odd = [f"{geometry[name]:,} {called}" for name, called in _ODD.items() if geometry[name]]
    yield from _entry("geometry", [", ".join([f"{geometry['file_type']}: {types}", *odd])])
    if geometry["bounds"]:
        yield from _entry("bounds", [" ".join(f"{number:.10g}" for number in geometry["bounds"])])
    yield from _entry("crs", _crs(report["crs"]))
    yield from _entry("encoding", [_named(report["encoding"])])
    yield from _entry("fields", _fields(report["fields"]) or ["none"])


def _crs(crs: Mapping[str, Any]) -> Iterator[str]:
    yield _named(crs)
    near = crs.get("recognised")
    if near and near["confidence"] < 100:
        yield f"taken for {near['name']}, with a confidence of {near['confidence']} %"
    if moved := crs.get("transformed"):
        yield f"transformed to {moved['target']} by {moved['operation']}"


def _fields(fields: Sequence[Mapping[str, str]]) -> list[str]:
    names = [
        field["name"]
        if field["name"] == field["original_name"]
        else f"{field['name']} (was {field['original_name']})"
        for field in fields
    ]
    width = min(max(map(len, names), default=0), _COLUMN_CHARACTERS)
    return [
        f"{name:<{width}}  {field['type']:<16} {field['file_type']}"
        for name, field in zip(names, fields, strict=True)
    ]


def _complaint(problem: Problem) -> Iterator[str]:
    times = f" ({problem.count:,} times)" if problem.count > 1 else ""
    yield f"{problem.severity.value:<8} {problem.code}: {problem.what}{times}"
    if problem.rows:
        shown = ", ".join(str(row) for row in problem.rows[:SHOWN_ROWS])
        more = ", …" if problem.count > min(len(problem.rows), SHOWN_ROWS) else ""
        yield f"         rows {shown}{more}"
    if problem.cure:
        yield f"         → {problem.cure}"


def _summed_up(inspected: Sequence[Inspected]) -> str:
    refused = sum(
        any(problem.severity is Severity.REFUSED for problem in each.problems) for each in inspected
    )
    loaded = len(inspected) - refused
    lossy = sum(not each.clean for each in inspected) - refused
    parts = [f"{loaded} would be loaded"]
    if lossy:
        parts.append(f"{lossy} of them without some rows")
    if refused:
        parts.append(f"{refused} would be refused")
    noun = "layer" if len(inspected) == 1 else "layers"
    return f"{len(inspected)} {noun}: {', '.join(parts)}"


def _entry(label: str, lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f"  {label if number == 0 else '':<{_LABEL_CHARACTERS}}{safe(line)}".rstrip()


def _named(fact: Mapping[str, str]) -> str:
    return f"{fact['name'] or 'none'} ({fact['source']})"


def _plain(problem: Problem) -> dict[str, Any]:
    return {
        "severity": problem.severity.value,
        "code": problem.code,
        "what": problem.what,
        "cure": problem.cure,
        "count": problem.count,
        "rows": list(problem.rows),
    }
