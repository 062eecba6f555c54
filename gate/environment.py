"""The environment as it is read: each variable checked, every problem kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from gate.errors import ConfigurationError
from gate.variables import VARIABLES

T = TypeVar("T")

_DEFAULTS = {variable.name: variable.default for variable in VARIABLES}
_SHOWN_CHARACTERS = 40


class SettingsError(ConfigurationError):
    """The environment is not usable; `problems` lists everything that is wrong.

    The message is a line with the cure, then a line for each problem: whoever
    shows only one end of it, as a log does of a crash, shows something of use.
    """

    code = "settings"
    cure = "correct the environment and deploy again"

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''} in the environment"
        super().__init__(count, where="settings")
        self.args = ("\n  - ".join((f"{self}:", *problems)),)


class Environment:
    """What the environment states, by variable; what is wrong of it gathers in `problems`."""

    def __init__(self, stated: Mapping[str, str]) -> None:
        self._stated = stated
        self.problems: list[str] = []

    def states(self, variable: str) -> bool:
        """Tell whether the variable is set to anything."""
        return bool(self._stated.get(variable, "").strip())

    def text(self, variable: str) -> str:
        """Return what the variable is set to, or its default."""
        return self._stated.get(variable, "").strip() or _DEFAULTS[variable]

    def checked(self, variable: str, check: Callable[[str], T], otherwise: T) -> T:
        """Return what `check` makes of the text; `otherwise`, and a problem, at a `ValueError`."""
        try:
            return check(self.text(variable))
        except ValueError as error:
            self.problem(variable, str(error))
            return otherwise

    def whole(self, variable: str, least: int, most: int) -> int:
        """Return the whole number; the default, and a problem, if it is none within the bounds."""
        text = self.text(variable)
        default = _DEFAULTS[variable]
        if text.isascii() and text.isdigit() and len(text) < 16 and least <= int(text) <= most:
            return int(text)
        shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
        self.problem(
            variable, f"{shown!r} is no whole number from {least} to {most}; use {default}"
        )
        return int(default)

    def problem(self, variable: str, what: str) -> None:
        """Keep what is wrong with a variable, and the cure."""
        self.problems.append(f"{variable}: {what}")
