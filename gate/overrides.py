"""What a person said of a bundle in the metadata of its objects.

    gcloud storage objects update gs://BUCKET/roads.shp --custom-metadata=crs=EPSG:25832

Any component may carry it. An override beats whatever the files say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from gate.errors import ConflictingOverridesError

KEYS = ("encoding", "crs", "layer")


@dataclass(frozen=True, slots=True)
class Overrides:
    """The facts that were stated, as they were written; what is empty was not.

    `layer` is the name of the dataset's layer; of an archive it is the one
    layer that is loaded.
    """

    encoding: str = ""
    crs: str = ""
    layer: str = ""

    def as_json(self) -> dict[str, str]:
        """Return those that were stated."""
        return {key: value for key, value in asdict(self).items() if value}

    @property
    def for_each_layer(self) -> Overrides:
        """Return what of it says how to read, without the choice of a layer."""
        return Overrides(self.encoding, self.crs)


NOTHING = Overrides()


def relevant(metadata: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Return what of the metadata of objects (name → its own) is about reading.

    Keys are taken in any case, and blanks around a value are not part of it.
    """
    found = {}
    for name in sorted(metadata):
        stripped = {key.strip().lower(): value.strip() for key, value in metadata[name].items()}
        if facts := {key: stripped[key] for key in KEYS if stripped.get(key)}:
            found[name] = facts
    return found


def stated(metadata: Mapping[str, Mapping[str, str]]) -> Overrides:
    """Return what `relevant` metadata says.

    Raises `ConflictingOverridesError` if two components say different things.
    """
    found: dict[str, tuple[str, str]] = {}
    for name in metadata:
        for fact, value in metadata[name].items():
            other, known = found.setdefault(fact, (name, value))
            if known != value:
                raise ConflictingOverridesError(
                    f"the metadata {fact} is {known!r} on {other} and {value!r} on {name}",
                    where=name,
                )
    return Overrides(**{fact: value for fact, (_, value) in found.items()})
