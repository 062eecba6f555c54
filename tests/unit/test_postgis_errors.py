"""What each error of PostgreSQL means: what passes, and what somebody has to mend."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from gate.errors import (
    ConfigurationError,
    DatabaseBusyError,
    GateError,
    SchemaMismatchError,
    StorageBusyError,
    TransientError,
    UnexpectedError,
    UnsupportedError,
)
from gate.sinks.postgis_database import translated


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("08006", DatabaseBusyError),  # connection failure
        ("25006", DatabaseBusyError),  # read-only: a standby before its promotion
        ("25P03", DatabaseBusyError),  # silent for too long
        ("40001", DatabaseBusyError),  # serialization failure
        ("40P01", DatabaseBusyError),  # deadlock
        ("53100", DatabaseBusyError),  # disk full
        ("53300", DatabaseBusyError),  # too many connections
        ("55P03", DatabaseBusyError),  # lock not available
        ("57014", DatabaseBusyError),  # query cancelled
        ("57P01", DatabaseBusyError),  # administrator's shutdown
        ("58030", DatabaseBusyError),  # input or output
        ("28P01", ConfigurationError),  # wrong password
        ("3D000", ConfigurationError),  # no such database
        ("3F000", ConfigurationError),  # no such schema
        ("42501", ConfigurationError),  # permission
        ("42704", ConfigurationError),  # no such type
        ("42883", ConfigurationError),  # no such function
        ("23505", SchemaMismatchError),  # a key that somebody added
        ("23503", SchemaMismatchError),  # a table that refers to the layer
        ("P0001", SchemaMismatchError),  # a trigger that says no
        ("54000", UnsupportedError),  # a row that fits no page
        ("54011", UnsupportedError),  # too many columns
        ("22021", UnexpectedError),  # character not in repertoire
        ("42601", UnexpectedError),  # syntax
        ("XX000", UnexpectedError),  # internal
    ],
)
def test_states_are_told_apart(state: str, kind: type[GateError]) -> None:
    """Issue 4: what passes, what is configuration, and what is refused of a layer."""
    error = translated(errors.lookup(state)("what\n  it said"), "postgresql://db:5432/gis")
    assert type(error) is kind
    assert str(error).startswith("postgresql://db:5432/gis: ")
    assert "what it said" in error.what


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("connection refused", DatabaseBusyError),
        ("could not translate host name", DatabaseBusyError),
        ("timeout expired", DatabaseBusyError),
        ("FATAL:  the database system is starting up", DatabaseBusyError),
        ("FATAL:  the database system is shutting down", DatabaseBusyError),
        ("FATAL:  the database system is in recovery mode", DatabaseBusyError),
        ("FATAL:  the database system is not accepting connections", DatabaseBusyError),
        ("FATAL:  sorry, too many clients already", DatabaseBusyError),
        ("FATAL:  remaining connection slots are reserved", DatabaseBusyError),
        ("FATAL:  password authentication failed for user", ConfigurationError),
        ("FATAL:  no pg_hba.conf entry for host", ConfigurationError),
        ("SSL error: certificate verify failed", ConfigurationError),
        ("server does not support SSL, but SSL was required", ConfigurationError),
        ("fe_sendauth: no password supplied", ConfigurationError),
    ],
)
def test_a_connection_that_is_not_made_is_judged_by_its_message(
    said: str, kind: type[GateError]
) -> None:
    """Issue 4: a refused login is told no code; what it says of the moment passes by itself."""
    assert type(translated(psycopg.OperationalError(said), "x")) is kind


def test_a_fault_of_the_client_is_unexpected() -> None:
    """What is neither the server's nor the network's fault keeps its name."""
    error = translated(psycopg.ProgrammingError("odd"), "x")
    assert type(error) is UnexpectedError
    assert error.what == "ProgrammingError: odd"


def test_a_silent_error_is_called_by_its_kind() -> None:
    """An error without a message still says something."""
    assert translated(psycopg.OperationalError(), "x").what == "OperationalError"


def test_a_lost_database_is_what_the_port_calls_busy() -> None:
    """The port promises `StorageBusyError` for what passes."""
    assert issubclass(DatabaseBusyError, StorageBusyError)
    assert issubclass(DatabaseBusyError, TransientError)
