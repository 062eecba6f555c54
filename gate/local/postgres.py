"""A PostgreSQL server with PostGIS for this machine alone, from Debian's packages.

It has a new folder of its own, listens on loopback only, asks for no password,
and keeps nothing: durability is off. PostgreSQL refuses to run as root; then it
runs as the user that its package has made.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gate.errors import ConfigurationError
from gate.local.processes import LOOPBACK

DATABASE = "gis"
USER = "gate"
# It is interrupted with its clients; what is left after this is killed.
GRACE_SECONDS = 5.0

_VERSIONS = Path("/usr/lib/postgresql")
_EXTENSIONS = Path("/usr/share/postgresql")
_INSTALL = "sudo apt-get install postgresql postgresql-postgis"
_OWNER = "postgres"
_OPEN_TO_ALL = "/var/tmp"  # noqa: S108 (a new folder of its own is made in it)
_INITDB = ("-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
# Ready in the template, so that every database made from it has it.
_STATEMENTS = f"create extension postgis\ncreate database {DATABASE}\n"


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is ready to be started on a port; `folder` holds all of its files."""

    programs: Path
    folder: Path
    port: int

    @property
    def uri(self) -> str:
        """Return the address of its database."""
        return uri(self.port)

    @property
    def command(self) -> tuple[str, ...]:
        """Return what starts it."""
        settings = ("fsync=off", "full_page_writes=off", "unix_socket_directories=")
        return (
            *_unprivileged(),
            *(str(self.programs / "postgres"), "-D", str(self.folder)),
            *("-h", LOOPBACK, "-p", str(self.port)),
            *(part for setting in settings for part in ("-c", setting)),
        )

    def answers(self) -> bool:
        """Tell whether it takes connections."""
        command = (str(self.programs / "pg_isready"), "-q", "-U", USER, "-h", LOOPBACK)
        return subprocess.run((*command, "-p", str(self.port)), check=False).returncode == 0

    def remove(self) -> None:
        """Remove its files, once it has ended."""
        shutil.rmtree(self.folder, ignore_errors=True)


def uri(port: int) -> str:
    """Return the address of the database of a server on this port, as `SINK` takes it."""
    return f"postgresql://{USER}@{LOOPBACK}:{port}/{DATABASE}"


def prepare(port: int) -> Server:
    """Make the files of a server with an empty database. Takes about two seconds.

    Raises `ConfigurationError` if a package is missing, or what it says fails.
    """
    programs = _programs()
    # The other user has to get there, whatever this one calls its temporary folder.
    place = _OPEN_TO_ALL if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="gate-postgres-", dir=place))
    server = Server(programs, folder, port)
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, _OWNER)
        _run(str(programs / "initdb"), "-D", str(folder), *_INITDB)

        postgres = str(programs / "postgres")
        _run(postgres, "--single", "-D", str(folder), "template1", told=_STATEMENTS)
    except BaseException:
        server.remove()
        raise
    return server


def _programs() -> Path:
    """Return the folder with the programs of the newest version that has PostGIS."""
    versions = sorted((int(each.name), each) for each in _VERSIONS.glob("*") if each.name.isdigit())
    for version, folder in reversed(versions):
        extension = _EXTENSIONS / str(version) / "extension" / "postgis.control"
        if (folder / "bin" / "initdb").exists() and extension.exists():
            return folder / "bin"
    raise ConfigurationError(
        "server not found", where="PostgreSQL with PostGIS", cure=f"install it: {_INSTALL}"
    )


def _unprivileged() -> tuple[str, ...]:
    if os.geteuid() != 0:
        return ()
    return ("setpriv", f"--reuid={_OWNER}", f"--regid={_OWNER}", "--clear-groups")


def _run(*command: str, told: str = "") -> None:
    done = subprocess.run(
        (*_unprivileged(), *command),
        input=told,
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    if done.returncode or "ERROR:" in done.stderr:
        last = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
        raise ConfigurationError(
            f"ended with exit code {done.returncode} ({last})",
            where=Path(command[0]).name,
            cure=f"install PostgreSQL anew: {_INSTALL}",
        )
