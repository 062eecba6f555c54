"""What would become of a bundle: read it as the gate does, and write nothing.

A local `.shp`, `.zip` or folder, or live objects of a bucket, are grouped,
unpacked and read by the same code as an uploaded bundle. Local files are not
copied; what is downloaded or unpacked goes to a temporary folder.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Any

from gate import reasons
from gate.errors import (
    BundleError,
    ConfigurationError,
    GateError,
    HeldError,
    MissingComponentError,
    MixedSpellingsError,
    PermissionDeniedError,
    StorageBusyError,
    UnexpectedError,
)
from gate.fetching import FETCHED_EXTENSIONS, Fetch, Overwritten
from gate.identity import Pin, Revision
from gate.layers import selected
from gate.manifest import Manifest
from gate.names import PRIMARY_EXTENSIONS, Bundle, Component, named, parse
from gate.overrides import NOTHING, Overrides, stated
from gate.shapefile.port import ArchivedLayer, Notice, OpenLayer, Unpack
from gate.source.port import Source

SCHEME = "gs://"
ROUNDS = 3
_BUCKET = re.compile(r"[a-z0-9]([a-z0-9._-]{0,220}[a-z0-9])?")
_MAX_NAME_BYTES = 1024


class Severity(Enum):
    """What a problem costs, the worst first: the layer, rows, values, or nothing."""

    REFUSED = "refused"
    REJECTED = "rejected"
    ALTERED = "altered"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that a person should know, and what to do about it.

    `rows` are the first that have it, counted from 1 in file order; `count` is
    of them all.
    """

    severity: Severity
    code: str
    what: str
    cure: str = ""
    count: int = 1
    rows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Inspected:
    """One layer, or an archive or bundle in which there is none to read.

    `report` is that of the reader, `None` if the layer would be refused.
    """

    source: str
    layer: str
    report: Mapping[str, Any] | None
    problems: tuple[Problem, ...]

    @property
    def clean(self) -> bool:
        """Tell whether every row would be loaded."""
        return not any(
            problem.severity in (Severity.REFUSED, Severity.REJECTED) for problem in self.problems
        )


@dataclass(frozen=True, slots=True)
class Inspect:
    """Inspect bundles with the reader that is given.

    `progress` is told the name of a layer and how many rows have been read of
    it. A bundle beyond `max_bundle_bytes` is read all the same and said to be
    larger, for the limit is the deployment's.
    """

    open_layer: OpenLayer
    unpack: Unpack
    required: tuple[str, ...]
    max_bundle_bytes: int
    progress: Callable[[str, int], object]

    def local(self, path: Path) -> tuple[Inspected, ...]:
        """Inspect a file with its companions, or every bundle below a folder.

        Raises `ConfigurationError` if there is none.
        """
        root = path if path.is_dir() else path.parent
        found = _bundles("", _files(path, root), None if path.is_dir() else named("", path.name))
        if not found:
            raise _nothing(str(path))
        return tuple(each for bundle in found for each in self._local(root, bundle))

    def bucket(self, source: Source, bucket: str, name: str) -> tuple[Inspected, ...]:
        """Inspect the live objects of a bundle, or of all bundles directly in a folder (`x/`).

        Each is read at the generation that was live when it was listed. Raises
        `ConfigurationError` if there is none, and what the source raises.
        """
        for _ in range(ROUNDS):
            live = _live(source, bucket, name)
            if not live:
                raise _nothing(f"{SCHEME}{bucket}/{name}")
            results = [self._remote(source, bundle) for bundle in live]
            if None not in results:
                return tuple(each for result in results for each in result or ())
        raise StorageBusyError("changes while it is read", where=f"{SCHEME}{bucket}/{name}")

    def _local(self, root: Path, found: Manifest) -> Iterator[Inspected]:
        bundle, pins = found.bundle, found.current()
        files = {extension: root / pin.name for extension, pin in pins.items()}
        label = str(files.get(".shp") or files[min(files)])
        try:
            found.demand_one_spelling(Revision.of(bundle, pins), self.required)
        except MixedSpellingsError as error:
            # The bundle has a name in a bucket only.
            yield Inspected(label, bundle.stem, None, (_refused(error, where=bundle.basename),))
            return
        with tempfile.TemporaryDirectory(prefix="gate-") as temporary:
            folder = Path(temporary)
            for extension in files.keys() & set(FETCHED_EXTENSIONS):
                _link(files[extension], folder / f"layer{extension}")
            size_bytes = sum(path.stat().st_size for path in files.values())
            yield from self._bundle(_Found(bundle, label, folder, tuple(files), size_bytes))

    def _remote(self, source: Source, live: Manifest) -> tuple[Inspected, ...] | None:
        """Return `None` if an object was overwritten meanwhile."""
        bundle, label = live.bundle, str(live.bundle)
        revision = Revision.of(bundle, live.current())
        with tempfile.TemporaryDirectory(prefix="gate-") as temporary:
            folder = Path(temporary)
            try:
                live.demand_one_spelling(revision, self.required)
                fetched = Fetch(source, self.required)(revision, folder, lambda: None)
                if isinstance(fetched, Overwritten):
                    return None
                overrides = stated(fetched.said)
            except PermissionDeniedError:
                raise
            except (BundleError, HeldError) as error:
                return (Inspected(label, bundle.stem, None, (_refused(error),)),)
            size_bytes = sum(fact.size_bytes for fact in fetched.facts.values())
            found = _Found(bundle, label, folder, tuple(fetched.facts), size_bytes, overrides)
            return tuple(self._bundle(found))

    def _bundle(self, found: _Found) -> Iterator[Inspected]:
        bundle = found.bundle
        notices: tuple[Notice, ...] = ()
        if found.size_bytes > self.max_bundle_bytes:
            what = f"it holds {found.size_bytes} bytes; the limit is {self.max_bundle_bytes}"
            notices = (Notice("beyond_max_bundle_bytes", what, 1),)
        if not bundle.archive:
            whole = ArchivedLayer(bundle.stem, "", found.folder, found.extensions, notices)
            yield self._layer(found.label, bundle.basename, whole, found.overrides)
            return
        packed = found.folder / f"layer{bundle.archive}"
        try:
            unpacked = self.unpack(packed, found.folder, bundle.basename, lambda: None)
            contents = selected(unpacked, found.overrides.layer, bundle.basename)
        except (BundleError, HeldError) as error:
            yield Inspected(found.label, "", None, (_refused(error),))
            return
        overrides = found.overrides.for_each_layer
        notices = (*notices, *contents.notices)
        for layer in contents.layers:
            noted = replace(layer, notices=(*notices, *layer.notices))
            yield self._layer(found.label, f"{bundle.basename}/{layer.name}", noted, overrides)
            notices = ()

    def _layer(
        self, label: str, name: str, layer: ArchivedLayer, overrides: Overrides
    ) -> Inspected:
        said = [
            Problem(Severity.NOTICE, notice.code, notice.what, count=notice.count)
            for notice in layer.notices
        ]
        try:
            report = self._read(layer, name, overrides)
        except (BundleError, HeldError, UnexpectedError) as error:
            return Inspected(label, layer.name, None, (_refused(error), *said))
        return Inspected(label, layer.name, report, (*_problems(report), *said))

    def _read(self, layer: ArchivedLayer, name: str, overrides: Overrides) -> Mapping[str, Any]:
        if layer.fault:
            raise layer.fault
        missing = [known for known in self.required if known not in layer.extensions]
        if missing:
            raise MissingComponentError(f"has no {' '.join(missing)}", where=name)
        try:
            with self.open_layer(layer.folder, name, overrides) as opened:
                rows = 0
                for batch in opened.batches():
                    rows += batch.num_rows
                    self.progress(name, rows)
                return opened.report().as_json()
        except GateError:
            raise
        except Exception as error:
            raise UnexpectedError(f"{type(error).__name__}: {error}", where=name) from error


@dataclass(frozen=True, slots=True)
class _Found:
    """A bundle whose files lie in `folder` under neutral names; `label` is where it came from."""

    bundle: Bundle
    label: str
    folder: Path
    extensions: tuple[str, ...]
    size_bytes: int
    overrides: Overrides = NOTHING


def address(text: str) -> tuple[str, str] | None:
    """Return the bucket and name of `gs://bucket/name`, `None` if it is something local.

    The scheme may be in any case (RFC 3986, 3.1). Raises `ConfigurationError`
    for an empty text, which would be the current folder, and for what no
    bucket or object can be called (cloud.google.com/storage/docs/buckets#naming
    and objects#naming).
    """
    if not text:
        raise _unusable("the path is empty", "")
    if text[: len(SCHEME)].lower() != SCHEME:
        return None
    bucket, _, name = text[len(SCHEME) :].partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise _unusable(f"{bucket!r} is no name of a bucket", text)
    if not _nameable(name):
        raise _unusable("no object can have this name", text)
    return bucket, name


def _nameable(name: str) -> bool:
    """Tell whether a name is UTF-8 of a length that is allowed, without line ends."""
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError:
        return False
    return size_bytes <= _MAX_NAME_BYTES and not set("\r\n") & set(name)


def _files(path: Path, root: Path) -> Iterator[Pin]:
    """Yield what would be objects of a bucket if `root` were one; the older, the less."""
    beside = path.rglob("*") if path.is_dir() else root.glob("*")
    files = [each for each in sorted(beside) if each.is_file()]
    files.sort(key=lambda each: each.stat().st_mtime_ns)
    for number, file in enumerate(files, 1):
        yield Pin(PurePosixPath(*file.relative_to(root).parts).as_posix(), number)


def _live(source: Source, bucket: str, name: str) -> list[Manifest]:
    """Return what is live of the bundle, or of the bundles of the folder, that `name` names."""
    folder = name[: name.rfind("/") + 1]
    wanted = named(bucket, name) if name != folder else None
    return _bundles(bucket, source.siblings(bucket, folder, ""), wanted)


def _bundles(bucket: str, found: Iterable[Pin], wanted: Bundle | None) -> list[Manifest]:
    """Return the bundles that objects make up, or the one that is wanted, by name."""
    objects: dict[Bundle, dict[str, int]] = {}
    for pin in found:
        component = parse(bucket, pin.name)
        if isinstance(component, Component) and wanted in (None, component.bundle):
            objects.setdefault(component.bundle, {})[pin.name] = pin.generation
    bundles = [Manifest(bundle, objects[bundle]) for bundle in objects]
    bundles.sort(key=lambda each: each.bundle.basename)
    return [each for each in bundles if _worth_reading(each.bundle, each.seen)]


def _worth_reading(bundle: Bundle, extensions: Iterable[str]) -> bool:
    """Tell a bundle from sidecars that lie about, and from a table that needs no shapes."""
    primary = set(PRIMARY_EXTENSIONS) & set(extensions)
    return bool(bundle.archive) or bool(primary - {".dbf"})


def _link(file: Path, target: Path) -> None:
    """Give a file another name for a while; where links are not allowed it is copied."""
    try:
        target.symlink_to(file.resolve())
    except OSError:
        shutil.copyfile(file, target)


def _problems(report: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what a report complains of, the worst first."""
    for reject in report.get("rejects", ()):
        cure = reasons.cure(reject["reason"])
        yield _counted(Severity.REJECTED, reject, "row is rejected", cure)
    for value in report.get("values", ()):
        what = f"value of {value['field']} is altered or becomes null"
        cure = reasons.cure(value["reason"])
        yield _counted(Severity.ALTERED, value, what, cure)
    for invalid in report.get("validity", {}).get("invalid", ()):
        cure = "repair these polygons, or have VALIDITY=repair do it"
        yield _counted(Severity.NOTICE, invalid, "geometry is invalid", cure)
    for notice in report.get("notices", ()):
        code = notice["code"]
        yield Problem(
            Severity.NOTICE, code, notice["what"], reasons.cure(code), count=notice["count"]
        )


def _counted(severity: Severity, found: Mapping[str, Any], what: str, cure: str) -> Problem:
    rows = tuple(example["row"] for example in found["examples"])
    return Problem(severity, found["reason"], what, cure, found["count"], rows)


def _refused(error: GateError, *, where: str = "") -> Problem:
    where = where or error.where
    what = f"{where}: {error.what}" if where else error.what
    return Problem(Severity.REFUSED, error.code, what, error.todo)


def _nothing(where: str) -> ConfigurationError:
    return _unusable("there is no shapefile", where)


def _unusable(what: str, where: str) -> ConfigurationError:
    cure = "name a .shp, a .zip, a folder of them, or gs://BUCKET/NAME"
    return ConfigurationError(what, where=where, cure=cure)
