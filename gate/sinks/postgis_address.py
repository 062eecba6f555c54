"""The address of a PostGIS sink: `postgresql://user@host/database?schema=gis&mode=replace`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from gate.errors import ConfigurationError

SCHEMES = ("postgresql://", "postgres://")
PORT = 5432
MAX_NAME_BYTES = 63
_EXAMPLE = "postgresql://user@host/database?schema=gis&sslmode=verify-full"
_UNCLEAR = (
    "cannot be taken apart: its port is no number, or a / ? # @ in its password is not written"
    " %2F %3F %23 %40"
)
_OURS = ("schema", "table", "mode")

# Of libpq's parameters (PostgreSQL, 34.1.2), those that say where and how safely.
_LIBPQ = ("host", "sslmode", "sslrootcert", "sslcert", "sslkey")
_SSLMODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_PLACEHOLDER = re.compile(r"\{(?:name|stem)\}")
_LITERALS = re.compile(r"[a-z][a-z0-9_]*|")


class Mode(Enum):
    """What a table is: one layer, replaced as a whole, or the rows of many."""

    REPLACE = "replace"
    APPEND = "append"


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """Where tables go, how they are called, and how to connect.

    `table` is a template: see `gate.sinks.postgis_names.table_name`. An empty
    `password` is left to `PGPASSWORD` or a password file, as libpq reads them.
    `options` are parameters of libpq. Neither shows in the printed form.
    """

    host: str
    port: int
    database: str
    user: str = ""
    password: str = field(default="", repr=False)
    schema: str = "public"
    table: str = "{name}"
    mode: Mode = Mode.REPLACE
    options: tuple[tuple[str, str], ...] = ()

    @property
    def connection(self) -> Mapping[str, str]:
        """Return what libpq is told."""
        stated = {
            "host": self.host,
            "port": str(self.port),
            "dbname": self.database,
            "user": self.user,
            "password": self.password,
            **dict(self.options),
        }
        return {name: value for name, value in stated.items() if value}

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else quote(self.host, safe="")
        return f"postgresql://{host}:{self.port}/{quote(self.database, safe='')}"


def parse(uri: str) -> DatabaseAddress:
    """Return the address that `uri` spells; what is quoted in it by `%` is unquoted.

    Raises `ConfigurationError`, naming everything that is wrong with it, and of
    it nothing that could be a password, wherever that stands.
    """
    try:
        parts = urlsplit(uri)
        port = parts.port or PORT
        if "@" in parts.path + parts.query + parts.fragment:
            raise ValueError
    except ValueError:
        # What is left of a password may stand anywhere in it.
        raise _refused(_UNCLEAR) from None
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    given = dict(pairs)
    host = given.pop("host", "") or unquote(parts.hostname or "")
    database = unquote(parts.path.removeprefix("/"))
    problems = "; ".join((*_place_problems(host, database, parts), *_parameter_problems(pairs)))
    if problems:
        raise _refused(problems)
    default = DatabaseAddress("", 0, "")
    return DatabaseAddress(
        host=host,
        port=port,
        database=database,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        schema=given.get("schema", default.schema),
        table=given.get("table", default.table),
        mode=Mode(given.get("mode", default.mode.value)),
        options=tuple((name, text) for name, text in given.items() if name not in _OURS),
    )


def _refused(problems: str) -> ConfigurationError:
    return ConfigurationError(problems, where="SINK", cure=f"write it like {_EXAMPLE}")


def _place_problems(host: str, database: str, parts: SplitResult) -> Iterator[str]:
    if not host:
        yield "names no host; a socket is ?host=/folder"
    if not database or "/" in database:
        yield f"{database!r} is no database name"
    if "\0" in unquote(parts.netloc + parts.path + parts.query):
        yield "holds a NUL"
    if parts.fragment:
        yield "has a # behind it"


def _parameter_problems(pairs: list[tuple[str, str]]) -> Iterator[str]:
    names = [name for name, _ in pairs]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"parameter {name} is given twice"
    known = (*_OURS, *_LIBPQ)
    for name in names:
        if name not in known:
            yield f"parameter {name} is unknown, there are {', '.join(known)}"
    given = dict(pairs)
    schema = given.get("schema", "public")
    if not schema or len(schema.encode()) > MAX_NAME_BYTES or schema.startswith("pg_"):
        yield f"schema {schema!r} is no name for a schema"
    modes = [mode.value for mode in Mode]
    if given.get("mode", modes[0]) not in modes:
        yield f"mode {given['mode']!r} is unknown, there are {', '.join(modes)}"
    if given.get("sslmode", _SSLMODES[0]) not in _SSLMODES:
        yield f"sslmode {given['sslmode']!r} is unknown, there are {', '.join(_SSLMODES)}"
    yield from _template_problems(given.get("table", "{name}"), given.get("mode"))


def _template_problems(template: str, mode: str | None) -> Iterator[str]:
    placed = _PLACEHOLDER.findall(template)
    plain = _PLACEHOLDER.sub("a", template)
    if not _LITERALS.fullmatch(plain) or not plain or len(plain) > MAX_NAME_BYTES // 2:
        yield (
            f"table {template!r} is no template: up to {MAX_NAME_BYTES // 2} of a-z, 0-9 and _"
            " around {name} or {stem}, a letter first"
        )
    elif len(placed) > 1:
        yield f"table {template!r} has more than one placeholder"
    elif not placed and mode != Mode.APPEND.value:
        yield f"table {template!r} is one table for all bundles, which needs mode=append"
