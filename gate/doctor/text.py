"""Findings for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from gate.doctor.finding import Finding, Verdict


def as_text(findings: Sequence[Finding]) -> str:
    """Return a line for each finding, what failed last, where it is read first."""
    order = list(Verdict)
    listed = sorted(findings, key=lambda each: order.index(each.verdict))
    return "\n".join(f"{each.verdict.value:<10} {each}" for each in listed)


def as_json(findings: Sequence[Finding]) -> str:
    """Return one JSON object with the findings in the order of the checks."""
    listed = [
        {
            "check": each.check,
            "verdict": each.verdict.value,
            "where": each.where,
            "what": each.what,
            "todo": each.todo,
        }
        for each in findings
    ]
    return json.dumps({"findings": listed}, indent=2, ensure_ascii=False)
