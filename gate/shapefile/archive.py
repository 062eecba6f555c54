"""The layers of a `.zip` or `.shz`, unpacked under neutral names.

    layers/0001/layer.shp, layer.shx, …     one folder for each layer

Entries are grouped as objects in a bucket are: same folder, same folded stem.
Twins that a Mac adds, and whatever else is no component, stay packed. Archives
inside the archive are unpacked too, one level deep. A layer that cannot be
unpacked says so itself and leaves the others alone; an archive that tries to
get out, or to fill the memory, is refused whole.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gate.errors import (
    BundleError,
    CorruptError,
    NoLayerError,
    UnsafeArchiveError,
    UnsupportedError,
)
from gate.names import Bundle, Component, parse
from gate.shapefile.files import STEM
from gate.shapefile.findings import Findings
from gate.shapefile.port import (
    METADATA_EXTENSION,
    METADATA_LIMIT_BYTES,
    READ_EXTENSIONS,
    ArchivedLayer,
    Contents,
)
from gate.shapefile.zip_file import Budget, Entry, Zip

# A table alone is no layer: deliveries bring tables of codes along.
_LAYER_EXTENSIONS = frozenset({".shp", ".shx"})
_UNPACKED_EXTENSIONS = (*READ_EXTENSIONS, METADATA_EXTENSION)

Components = Mapping[str, list[Entry]]


@dataclass(frozen=True, slots=True)
class Archives:
    """The `gate.shapefile.port.Unpack` over zip files, within two limits for each archive."""

    max_entries: int
    max_unpacked_bytes: int

    def __call__(
        self, archive: Path, folder: Path, name: str, step: Callable[[], object]
    ) -> Contents:
        """Unpack the layers of `archive`: see the port.

        Raises what opening a `gate.shapefile.zip_file.Zip` raises,
        `TooLargeError` before anything is written if the directory declares
        more than is allowed, `NoLayerError` if there is nothing to read.
        """
        budget = Budget(self.max_entries, self.max_unpacked_bytes)
        unpacking = _Unpacking(folder, name, budget, step)
        unpacking.take(archive, "")
        layers = sorted(unpacking.layers, key=lambda layer: layer.name)
        if not layers:
            raise NoLayerError("holds no .shp", where=name)
        notices = tuple(unpacking.findings.notices())
        return Contents(tuple(_distinct(layers, name)), notices)


@dataclass(slots=True)
class _Unpacking:
    """One archive being unpacked, with those inside it."""

    folder: Path
    name: str
    budget: Budget
    step: Callable[[], object]
    findings: Findings = field(default_factory=Findings)
    layers: list[ArchivedLayer] = field(default_factory=list)

    def take(self, archive: Path, inside: str) -> None:
        """Unpack one zip file; `inside` is its own path in the outer one, with a slash."""
        where = f"{self.name}/{inside}".removesuffix("/")
        with Zip(archive, where, self.budget) as packed:
            self._note_names(packed.entries)
            groups = self._grouped(packed.entries, inside)
            self.budget.reserve(_declared_bytes(groups), where)
            for bundle, components in sorted(groups.items(), key=lambda item: item[0].basename):
                if bundle.archive:
                    self._nested(packed, bundle, components, inside)
                else:
                    self._layer(packed, bundle, components)

    def _note_names(self, entries: tuple[Entry, ...]) -> None:
        unflagged = sum(entry.naming == "unflagged" for entry in entries)
        old = sum(entry.naming == "cp437" for entry in entries)
        what = "names are UTF-8, though their entries do not say so"
        self.findings.notice("unflagged_names", what, unflagged)
        what = "names are in a code page that nothing names, and are read as cp437"
        self.findings.notice("old_names", what, old)

    def _grouped(self, entries: tuple[Entry, ...], inside: str) -> dict[Bundle, Components]:
        """Return what has to be unpacked: extension → entries, for each layer and archive."""
        groups: dict[Bundle, dict[str, list[Entry]]] = {}
        for entry in entries:
            component = parse("", _composed(f"{inside}{entry.path}"))
            if isinstance(component, Component):
                found = groups.setdefault(component.bundle, {})
                found.setdefault(component.extension, []).append(entry)
        for bundle in list(groups):
            if not bundle.archive and _LAYER_EXTENSIONS.isdisjoint(groups[bundle]):
                if ".dbf" in groups[bundle]:
                    self.findings.notice("lone_table", f"{bundle.basename}.dbf has no .shp")
                del groups[bundle]
        return {
            bundle: {
                extension: found
                for extension, found in components.items()
                if extension in _UNPACKED_EXTENSIONS or extension == bundle.archive
            }
            for bundle, components in groups.items()
        }

    def _layer(self, packed: Zip, bundle: Bundle, components: Components) -> None:
        folder = self._folder_of_next()
        folder.mkdir(parents=True)
        findings = Findings()
        extensions: list[str] = []
        fault: BundleError | None = None
        try:
            for extension, entry in self._single(bundle, components).items():
                if extension == METADATA_EXTENSION and entry.size_bytes > METADATA_LIMIT_BYTES:
                    what = f"its {METADATA_EXTENSION} of {entry.size_bytes} bytes is not stored"
                    findings.notice("metadata_too_large", what)
                    continue
                packed.copy(entry, folder / f"{STEM}{extension}", self.step)
                extensions.append(extension)
        except UnsafeArchiveError:
            raise
        except BundleError as error:
            fault = error
        self.layers.append(
            ArchivedLayer(
                bundle.basename,
                _spelled(components),
                folder,
                tuple(extensions),
                tuple(findings.notices()),
                fault,
            )
        )

    def _folder_of_next(self) -> Path:
        return self.folder / "layers" / f"{len(self.layers) + 1:04}"

    def _nested(self, packed: Zip, bundle: Bundle, components: Components, inside: str) -> None:
        """Take the layers of an archive inside; one that cannot be used is a faulty layer."""
        archive = self.folder / f"inner{bundle.archive}"
        spelled = _spelled(components)
        before = len(self.layers)
        try:
            entry = self._single(bundle, components)[bundle.archive]
            if inside:
                cure = "pack its layers one level less deep and upload the archive again"
                what = "is an archive inside an archive inside the archive"
                raise UnsupportedError(what, where=f"{self.name}/{bundle.basename}", cure=cure)
            packed.copy(entry, archive, self.step)
            self.take(archive, f"{bundle.basename}/")
        except UnsafeArchiveError:
            raise
        except BundleError as error:
            nowhere = self._folder_of_next()
            fault = ArchivedLayer(bundle.basename, spelled, nowhere, (), fault=error)
            self.layers.append(fault)
        finally:
            archive.unlink(missing_ok=True)
        if len(self.layers) == before:
            self.findings.notice("no_layer_inside", f"{spelled} holds no .shp")

    def _single(self, bundle: Bundle, components: Components) -> dict[str, Entry]:
        """Return the one entry of each extension. Raises `CorruptError` where there are two."""
        for extension, entries in components.items():
            if len(entries) > 1:
                spellings = ", ".join(sorted(repr(entry.path[:200]) for entry in entries[:3]))
                what = f"its {extension} is packed {len(entries)} times: {spellings}"
                where = f"{self.name}/{bundle.basename}"
                cure = "pack each file once and upload the archive again"
                raise CorruptError(what, where=where, cure=cure)
        return {extension: components[extension][0] for extension in sorted(components)}


def _composed(path: str) -> str:
    """Return the path with its folders in composed form, as a Mac does not write them."""
    return unicodedata.normalize("NFC", path)


def _declared_bytes(groups: Mapping[Bundle, Components]) -> int:
    return sum(
        entry.size_bytes
        for components in groups.values()
        for entries in components.values()
        for entry in entries
    )


def _spelled(components: Components) -> str:
    """Return the path of the first component, `.shp` if there is one, without its extension."""
    extension = ".shp" if ".shp" in components else min(components)
    path = components[extension][0].path
    return path if extension in (".zip", ".shz") else path[: -len(extension)]


def _distinct(layers: list[ArchivedLayer], where: str) -> Iterator[ArchivedLayer]:
    """Yield the layers; of those that share a name none can be loaded, and the others can."""
    names = Counter(layer.name for layer in layers)
    for layer in layers:
        if names[layer.name] > 1:
            fault = CorruptError(
                "the archive holds two layers of this name",
                where=f"{where}/{layer.name}",
                cure="rename one of them and upload the archive again",
            )
            yield replace(layer, fault=fault)
        else:
            yield layer
