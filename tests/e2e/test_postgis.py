"""Bundles go from a bucket through Pub/Sub and the function into tables of PostGIS."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gate.local.postgres import Server
from gate.local.stack import Stack
from gate.sinks.postgis_names import table_name
from tests.e2e.conftest import World
from tests.e2e.test_stack import READY, SECONDS, family, read_until, running, up
from tests.shapefiles import parcels

ORDER = (".dbf", ".shx", ".prj", ".shp")


@pytest.fixture
def database(stack: Stack, postgis_server: Server) -> Iterator[psycopg.Connection[Any]]:
    """Let the function publish to PostGIS, and return a reader's connection."""
    stack.restart_function({"SINK": postgis_server.uri})
    with psycopg.connect(postgis_server.uri, autocommit=True) as connection:
        yield connection


def published(database: psycopg.Connection[Any], table: str) -> list[tuple[Any, ...]]:
    """Return what the ledger says of a table."""
    if database.execute("select to_regclass('_gate_ledger')").fetchall() == [(None,)]:
        return []
    statement = "select revision_order, row_count from _gate_ledger where table_name = %s"
    return database.execute(statement, (table,)).fetchall()


def test_a_bundle_becomes_a_table_and_its_new_version_replaces_it(
    world: World, database: psycopg.Connection[Any]
) -> None:
    """C6, issue 4: the newest upload is what the table holds, each was read once."""
    table = table_name("{name}", world.bundle("plots"))
    for rows in (60, 25):
        world.upload_all("plots", parcels(rows=rows, seed=rows), *ORDER)
        order = sum(world.generations.values())
        wanted = [(order, rows)]
        world.wait(f"{rows} rows", lambda wanted=wanted: published(database, table) == wanted)

    counted = database.execute(f'select count(*), min(st_srid(geometry)) from "{table}"')
    assert counted.fetchall() == [(25, 4326)]
    world.wait("the end of both jobs", lambda: world.count("ingestion ended", "plots") == 2)
    assert world.count("reading", "plots") == 2


def test_a_database_that_is_away_is_tried_again(
    stack: Stack, world: World, database: psycopg.Connection[Any], postgis_server: Server
) -> None:
    """G1, issue 4: without its schema the sink is not to be had; the event comes back."""
    stack.restart_function({"SINK": f"{postgis_server.uri}?schema=late"})
    world.upload_all("roads", parcels(rows=5), *ORDER)
    world.wait("a failed attempt", lambda: world.count("ingestion ended", "roads") >= 1)
    database.execute("create schema late")
    database.execute("set search_path = late")
    table = table_name("{name}", world.bundle("roads"))
    world.wait("a table", lambda: bool(published(database, table)))

    assert database.execute(f'select count(*) from "{table}"').fetchall() == [(5,)]
    database.execute("drop schema late cascade")


@pytest.mark.usefixtures("_tools", "postgis_server")
def test_up_starts_a_database_too(tmp_path: Path) -> None:
    """Issue 4: `local up --postgis` tells the address of a database, and leaves nothing behind."""
    with up(tmp_path, "--postgis") as process:
        said = read_until(process, READY)
        pids = family(process.pid)
        (uri,) = (line.split()[-1] for line in said if line.startswith("datasets in"))
        with psycopg.connect(uri) as connection:
            assert connection.execute("select postgis_lib_version()").fetchall()
            ((files,),) = connection.execute("show data_directory").fetchall()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out, err) == (0, "stopped\n", "")
    assert running(pids) == set()
    assert not Path(files).exists()
