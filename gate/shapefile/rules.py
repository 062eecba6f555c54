"""What the deployment's policies say of rows whose geometry is not as one would wish."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any

from gate.policies import Measures, Policies, RowPolicy
from gate.shapefile.findings import Findings
from gate.shapefile.records import NULL


class Oddity(Enum):
    """A kind of geometry that there is a policy for; the values are reasons of rejects."""

    NULL = "null_geometry"
    EMPTY = "empty_geometry"
    NAN = "nan_coordinates"
    COLLAPSED = "collapsed_geometry"
    MEASURED = "m_values"


_OF_MEASURED = {Measures.DROP: RowPolicy.KEEP, Measures.REJECT: RowPolicy.REJECT}


@dataclass(frozen=True, slots=True)
class RowRules:
    """The policies for rows, applied one row at a time."""

    policies: Policies
    findings: Findings

    def policy(self, oddity: Oddity) -> RowPolicy:
        """Return the policy for one kind of geometry."""
        return {
            Oddity.NULL: self.policies.null_geometry,
            Oddity.EMPTY: self.policies.empty_geometry,
            Oddity.NAN: self.policies.nan_coordinates,
            Oddity.COLLAPSED: self.policies.collapsed_geometry,
            Oddity.MEASURED: _OF_MEASURED[self.policies.m_values],
        }[oddity]

    def admits(self, oddity: Oddity, number: int, text: str) -> bool:
        """Tell whether a row, counted from 1, is loaded; note it as rejected if it is not."""
        policy = self.policy(oddity)
        if policy is RowPolicy.KEEP:
            return True
        self.findings.reject(oddity.value, number, text, listed=policy is RowPolicy.REJECT)
        return False


def oddity(kind: int, points: int, name: str, coordinates: Any) -> Oddity | None:
    """Return what is odd about a geometry, if anything.

    `kind` and `points` are what its record says, `name` and `coordinates` what
    was read of it. A point whose x and y are both NaN is how writers spell an
    empty point, for the format has none.
    """
    if kind == NULL:
        return Oddity.NULL
    if points == 0:
        return Oddity.EMPTY
    if name == "Point" and math.isnan(coordinates[0]) and math.isnan(coordinates[1]):
        return Oddity.EMPTY
    return None if _finite(coordinates) else Oddity.NAN


def _finite(coordinates: Any) -> bool:
    """Tell whether x and y of all positions are numbers; heights may be what they like."""
    if not coordinates:
        return True
    if isinstance(coordinates[0], (list, tuple)):
        return all(map(_finite, coordinates))
    return math.isfinite(coordinates[0]) and math.isfinite(coordinates[1])
