"""What is said when the database is not as it has to be, and how the connection is made safe."""

from __future__ import annotations

import datetime
import ipaddress
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gate import settings
from gate.errors import ConfigurationError, DatabaseBusyError
from gate.local import postgres
from gate.sinks.factory import open_sink
from gate.sinks.port import Outdated, Published
from tests.contract.postgis_bench import PostgisBench
from tests.layers import WGS84, points, publication, revision

pytestmark = pytest.mark.emulator

OF = revision(shp=10)
SECRET = "s3cret word"


def refused(bench: PostgisBench, **parameters: str) -> str:
    """Return what a sink that cannot be used says, of its set-up and not of its password."""
    with pytest.raises(ConfigurationError) as raised:
        bench.open(**parameters).current(OF)
    assert SECRET not in str(raised.value)
    return str(raised.value)


def place(bench: PostgisBench, user: str = postgres.USER, database: str = postgres.DATABASE) -> str:
    """Return the beginning of a URI."""
    return f"postgresql://{user}@127.0.0.1:{bench.wire.port}/{database}?schema={bench.schema}"


@pytest.fixture
def role(postgis_sink_bench: PostgisBench) -> Iterator[str]:
    """Return a user who may do nothing."""
    name = f"user_{postgis_sink_bench.schema}"
    postgis_sink_bench.run(f"create role {name} login")
    yield name
    postgis_sink_bench.run(f"drop owned by {name}; drop role {name}")


@pytest.fixture
def locked(postgis_sink_bench: PostgisBench) -> Iterator[str]:
    """Return a user whom the server asks for a password."""
    name = f"locked_{postgis_sink_bench.schema}"
    rules = postgis_sink_bench.server.folder / "pg_hba.conf"
    before = rules.read_text()
    postgis_sink_bench.run(f"create role {name} login password '{SECRET}'")
    postgis_sink_bench.run(f"grant all on schema {postgis_sink_bench.schema} to {name}")
    rules.write_text(f"host all {name} 127.0.0.1/32 scram-sha-256\n{before}")
    postgis_sink_bench.run("select pg_reload_conf()")
    yield name
    rules.write_text(before)
    postgis_sink_bench.run("select pg_reload_conf()")
    postgis_sink_bench.run(f"drop owned by {name}; drop role {name}")


def test_a_missing_schema_is_told_with_its_cure(postgis_sink_bench: PostgisBench) -> None:
    """Issue 4: the schema is not made by itself; the message says how."""
    uri = place(postgis_sink_bench).replace(postgis_sink_bench.schema, "nowhere")
    said = refused(postgis_sink_bench, uri=uri)
    assert "there is no schema nowhere" in said
    assert 'run: create schema "nowhere"' in said


def test_a_missing_database_is_told(postgis_sink_bench: PostgisBench) -> None:
    """Issue 4: a database that does not exist is a matter of configuration."""
    said = refused(postgis_sink_bench, uri=place(postgis_sink_bench, database="nowhere"))
    assert 'database "nowhere" does not exist' in said
    assert "correct user, password, database" in said


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        ("template template0", "PostGIS is not installed; run in that database: create extension"),
        (
            "template template0 encoding 'LATIN1' locale 'C'",
            "its encoding is LATIN1; create a database with encoding UTF8",
        ),
    ],
)
def test_an_unfit_database_is_told(
    postgis_sink_bench: PostgisBench, made: str, problem: str
) -> None:
    """Issue 4, case 58: without PostGIS, or with another encoding than UTF8, nothing is loaded."""
    with postgis_sink_bench.reader() as connection:
        connection.autocommit = True
        connection.execute(f"create database unfit {made}")
        try:
            uri = place(postgis_sink_bench, database="unfit")
            uri = uri.replace(postgis_sink_bench.schema, "public")
            assert problem in refused(postgis_sink_bench, uri=uri)
        finally:
            connection.execute("drop database unfit with (force)")


def test_missing_permission_is_told(postgis_sink_bench: PostgisBench, role: str) -> None:
    """Issue 4: a user who may not create tables is a matter of configuration."""
    said = refused(postgis_sink_bench, uri=place(postgis_sink_bench, role))
    assert f"permission denied for schema {postgis_sink_bench.schema}" in said
    assert "grant the user of SINK what it lacks" in said


def test_the_permissions_that_the_page_names_are_enough(
    postgis_sink_bench: PostgisBench, role: str
) -> None:
    """Issue 4: usage and create on the schema let a user publish, again and again."""
    postgis_sink_bench.run(f"grant usage, create on schema {postgis_sink_bench.schema} to {role}")
    sink = postgis_sink_bench.open(uri=place(postgis_sink_bench, role))

    for number in (1, 2):
        of = revision(shp=number)
        outcome = sink.publish(publication(of), points(number), dict, lambda: True)
        assert isinstance(outcome, Published)


@pytest.mark.parametrize(
    "setting",
    [
        "statement_timeout = '1ms'",
        "idle_in_transaction_session_timeout = '100ms'",
        "default_transaction_isolation = 'serializable'",
        "search_path = 'pg_catalog'",
        "client_encoding = 'LATIN1'",
        "standard_conforming_strings = off",
        "DateStyle = 'SQL, DMY'",
    ],
)
def test_what_a_user_is_set_to_changes_nothing(
    postgis_sink_bench: PostgisBench, role: str, setting: str
) -> None:
    """Issue 4: time limits, isolation and paths of the user do not reach into a load."""
    postgis_sink_bench.run(f"grant usage, create on schema {postgis_sink_bench.schema} to {role}")
    postgis_sink_bench.run(f"alter role {role} set {setting}")
    sink = postgis_sink_bench.open(uri=place(postgis_sink_bench, role))
    newer = revision(shp=20)

    def meanwhile() -> None:
        sink.publish(publication(newer), points(3, "größer \\'"), dict, lambda: True)

    def think() -> bool:
        threading.Event().wait(0.15)
        return True

    postgis_sink_bench.before_swap(meanwhile)
    assert sink.publish(publication(OF), points(2), dict, think) == Outdated(20)
    assert postgis_sink_bench.names("in__roads")[0] == "größer \\' 0"


def test_postgis_may_be_in_a_schema_of_its_own(postgis_sink_bench: PostgisBench) -> None:
    """Issue 4: types and reference systems are found where the extension is."""
    with postgis_sink_bench.reader() as connection:
        connection.autocommit = True
        connection.execute("create database apart template template0")
        try:
            uri = postgis_sink_bench.server.uri.rpartition("/")[0] + "/apart"
            with psycopg.connect(uri, autocommit=True) as inside:
                inside.execute('create schema "Ext"; create extension postgis schema "Ext"')
                inside.execute("create schema layers")
            sink = postgis_sink_bench.open(uri=f"{uri}?schema=layers")
            layer = points(2, geo_crs=WGS84)
            outcome = sink.publish(publication(OF), layer, dict, lambda: True)
            assert isinstance(outcome, Published)
            with psycopg.connect(uri) as inside:
                found = inside.execute(
                    'select distinct "Ext".st_srid(geometry) from layers.in__roads'
                )
                assert found.fetchall() == [(4326,)]
        finally:
            connection.execute("drop database apart with (force)")


def test_sinks_that_start_at_once_make_one_ledger(postgis_sink_bench: PostgisBench) -> None:
    """Many instances of a function may meet an empty schema together."""
    start = threading.Barrier(6, timeout=20)
    answers: list[object] = []

    def ask() -> None:
        sink = postgis_sink_bench.open()
        start.wait()
        answers.append(sink.current(OF))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert answers == [None] * 6


def test_the_password_comes_from_the_address_or_the_environment(
    postgis_sink_bench: PostgisBench, locked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 4: a password may stand in the URI, quoted, or in PGPASSWORD; a wrong one is told."""
    monkeypatch.delenv("PGPASSWORD", raising=False)
    bare = place(postgis_sink_bench, locked)
    assert "password" in refused(postgis_sink_bench, uri=bare)
    wrong = place(postgis_sink_bench, f"{locked}:wrong")
    assert "password authentication failed" in refused(postgis_sink_bench, uri=wrong)

    stated = place(postgis_sink_bench, f"{locked}:{SECRET.replace(' ', '%20')}")
    assert postgis_sink_bench.open(uri=stated).current(OF) is None
    monkeypatch.setenv("PGPASSWORD", SECRET)
    assert postgis_sink_bench.open(uri=bare).current(OF) is None


def test_a_server_that_is_away_is_waited_for(postgis_sink_bench: PostgisBench) -> None:
    """Issue 4: a connection that is refused passes by itself."""
    uri = place(postgis_sink_bench)
    postgis_sink_bench.wire.close()

    with pytest.raises(DatabaseBusyError):
        postgis_sink_bench.open(uri=uri).current(OF)


def test_a_server_that_restarts_is_waited_for(postgis_sink_bench: PostgisBench) -> None:
    """Issue 4: a backend that an operator ends is a fault that passes."""
    kill = (
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name = 'shapefile-gate'"
    )
    postgis_sink_bench.before_swap(lambda: postgis_sink_bench.rows(kill))

    with pytest.raises(DatabaseBusyError):
        postgis_sink_bench.publish(OF, points(1))
    assert isinstance(postgis_sink_bench.publish(OF, points(1)), Published)


def signed() -> tuple[bytes, bytes]:
    """Return a new certificate for 127.0.0.1, signed by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gate test")])
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    local = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=10))
        .add_extension(local, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return made.public_bytes(serialization.Encoding.PEM), secret


@pytest.fixture
def certificate(postgis_sink_bench: PostgisBench, tmp_path: Path) -> Iterator[Path]:
    """Give the server a certificate, and return the file to check it by."""
    pem, secret = signed()
    folder = postgis_sink_bench.server.folder
    owner = folder.stat()
    for file, content in (("server.crt", pem), ("server.key", secret)):
        (folder / file).touch(mode=0o600)
        (folder / file).write_bytes(content)
        os.chown(folder / file, owner.st_uid, owner.st_gid)
    trusted = tmp_path / "root.crt"
    trusted.write_bytes(pem)
    with postgis_sink_bench.reader() as connection:
        connection.autocommit = True
        connection.execute("alter system set ssl = on")
        connection.execute("select pg_reload_conf()")
        yield trusted
        connection.execute("alter system reset ssl")
        connection.execute("select pg_reload_conf()")


def test_the_certificate_of_the_server_is_checked(
    postgis_sink_bench: PostgisBench, certificate: Path, tmp_path: Path
) -> None:
    """Issue 4: `sslmode` and `sslrootcert` are honoured; a server nobody vouches for is told."""
    verified = postgis_sink_bench.open(sslmode="verify-full", sslrootcert=str(certificate))
    assert verified.current(OF) is None
    encrypted = (
        "select ssl from pg_stat_ssl join pg_stat_activity using (pid)"
        " where application_name = 'shapefile-gate'"
    )
    assert postgis_sink_bench.rows(encrypted) == [(True,)]

    missing = str(tmp_path / "nothing.crt")
    said = refused(postgis_sink_bench, sslmode="verify-full", sslrootcert=missing)
    assert "nothing.crt" in said
    certificate.write_bytes(signed()[0])
    assert "certificate verify failed" in refused(
        postgis_sink_bench, sslmode="verify-ca", sslrootcert=str(certificate)
    )


def test_encryption_that_is_demanded_and_not_to_be_had_is_told(
    postgis_sink_bench: PostgisBench,
) -> None:
    """Issue 4: with `sslmode=require` nothing goes over the wire in the clear."""
    said = refused(postgis_sink_bench, sslmode="require")
    assert "server does not support SSL, but SSL was required" in said


def test_the_sink_of_the_settings_publishes(postgis_sink_bench: PostgisBench) -> None:
    """The sink that wiring opens for SINK=postgresql://… has tokens of its own."""
    loaded = settings.load({"SINK": place(postgis_sink_bench), "SOURCE_BUCKET": "uploads"})
    sink = open_sink(loaded.sink, None)  # type: ignore[arg-type]

    for number in (1, 2):
        of = revision(shp=number)
        assert isinstance(sink.publish(publication(of), points(1), dict, lambda: True), Published)
    sink._database.close()  # type: ignore[attr-defined]
