"""The layers of one archive: each published by itself, and one account of them all.

A layer that cannot be read leaves the others alone. A fault that may pass ends
the attempt, and the next one finds what is published already. A fault that
nobody foresaw waits until the other layers have had their turn.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gate import log
from gate.errors import (
    BundleError,
    ConfigurationError,
    GateError,
    HeldError,
    MissingComponentError,
    PermissionDeniedError,
    SomeLayersError,
    TransientError,
    UnexpectedError,
    UnknownOverrideError,
)
from gate.names import Bundle, fold
from gate.overrides import NOTHING, Overrides
from gate.ownership import Ownership, Stopped
from gate.publishing import Publisher, Unread, as_uploaded, fields, values_changed
from gate.scrubbing import bounded
from gate.shapefile.port import ArchivedLayer, Contents, Notice
from gate.sinks.port import Outdated, Published

# A job is one document: it carries this many layers of each kind by name.
SHOWN_LAYERS = 20
NAME_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class LayerResult:
    """What became of one layer: it is published, or there is an error."""

    layer: ArchivedLayer
    published: Published | None = None
    report: Mapping[str, Any] = field(default_factory=dict)
    error: GateError | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the result as the index shows it."""
        content: dict[str, Any] = {"name": self.layer.name, "spelled": self.layer.spelled}
        if self.published:
            content.update(
                state="done", location=self.published.location, loaded=self.published.rows
            )
            if "rows" in self.report:
                content["rows"] = self.report["rows"]
        if self.error:
            content.update(
                state="failed",
                code=self.error.code,
                message=bounded(str(self.error)),
                cure=self.error.todo,
            )
        if self.layer.notices:
            content["notices"] = _plain(self.layer.notices)
        return content


@dataclass(frozen=True, slots=True)
class Layers:
    """Publish the layers of one archive.

    `name` is what messages call the archive, `facts` what each report says of
    the job, `required` the extensions that each layer must have. `overrides` say
    how to read each of them.
    """

    publisher: Publisher
    contents: Contents
    name: str
    facts: Mapping[str, Any]
    required: tuple[str, ...]
    overrides: Overrides = NOTHING

    def publish(self, own: Ownership) -> tuple[LayerResult, ...] | Outdated:
        """Publish every layer that can be; return the results in order of name.

        `Outdated` as soon as the sink holds a newer revision of one. Raises
        `Stopped`, and `TransientError`, `ConfigurationError` or
        `PermissionDeniedError` at once, for another layer would meet the same.
        """
        results: list[LayerResult] = []
        for layer in self._in_turn(own.job.fence):
            own.beat()
            result = self._publish(own, layer)
            if isinstance(result, Outdated):
                return result
            results.append(result)
            shutil.rmtree(layer.folder, ignore_errors=True)
        return tuple(sorted(results, key=lambda result: result.layer.name))

    def _in_turn(self, fence: int) -> Sequence[ArchivedLayer]:
        """Return the layers, from the other end at every second claim.

        So a layer that kills its worker each time keeps none out for good.
        """
        return self.contents.layers[:: 1 if fence % 2 else -1]

    def _publish(self, own: Ownership, layer: ArchivedLayer) -> LayerResult | Outdated:
        try:
            if own.job.history:
                standing = self.publisher.sink.current(own.job.revision, layer.name)
                if standing is not None:
                    return _result(layer, standing, {})
            result = _result(layer, *self.publisher.layer(own, self._unread(layer)))
            own.progress = True
            return result
        except (TransientError, ConfigurationError, PermissionDeniedError, Stopped):
            raise
        except (BundleError, HeldError) as error:
            return LayerResult(layer, error=as_uploaded(error, own.job.revision, layer))
        except Exception as error:  # noqa: BLE001  the other layers are worth an attempt
            log.crash("layer crashed", error, layer=layer.name, **fields(own.job))
            where = f"{self.name}/{layer.name}"
            unexpected = UnexpectedError(f"{type(error).__name__}: {error}", where=where)
            return LayerResult(layer, error=unexpected)

    def _unread(self, layer: ArchivedLayer) -> Unread:
        """Return what is to be read. Raises the layer's fault, or what it lacks."""
        if layer.fault:
            raise layer.fault
        for extension in self.required:
            if extension not in layer.extensions:
                where = f"{self.name}/{layer.name}{extension}"
                cure = "pack the missing file beside the others and upload the archive again"
                raise MissingComponentError("is missing", where=where, cure=cure)
        archived = {"layer": layer.name, "spelled": layer.spelled}
        facts = {**self.facts, "archive": {**archived, "notices": _plain(layer.notices)}}
        name = f"{self.name}/{layer.name}"
        return Unread(layer.folder, name, layer.name, self.overrides, facts)

    def index(self, results: Sequence[LayerResult]) -> dict[str, Any]:
        """Return the whole account: every layer, and what was odd about the archive."""
        return {
            **counts(results),
            "layers": [result.as_json() for result in results],
            "notices": _plain(self.contents.notices),
        }


def selected(contents: Contents, wanted: str, where: str) -> Contents:
    """Return an archive as if it held the one layer that a person chose, if one was chosen.

    A layer is chosen by its whole name, or by its last part if no other layer
    has the same; case does not matter. Raises `UnknownOverrideError`.
    """
    if not wanted:
        return contents
    name = fold(wanted)
    whole = [layer for layer in contents.layers if fold(layer.name) == name]
    last = [layer for layer in contents.layers if fold(layer.name.rpartition("/")[2]) == name]
    found = whole or last
    if len(found) == 1:
        return replace(contents, layers=(found[0],))
    names = ", ".join(layer.name[:NAME_CHARACTERS] for layer in contents.layers[:SHOWN_LAYERS])
    how = f"{len(found)} layers" if found else "no layer"
    raise UnknownOverrideError(
        f"the metadata layer={wanted[:NAME_CHARACTERS]!r} names {how} of {names}",
        where=where,
        cure="name one of these layers, and redrive the job",
    )


def counts(results: Sequence[LayerResult]) -> dict[str, int]:
    """Return how many layers there are, and how many of them are published."""
    done = sum(result.published is not None for result in results)
    return {"found": len(results), "done": done, "failed": len(results) - done}


def summary_of(results: Sequence[LayerResult], location: str) -> dict[str, Any]:
    """Return the bounded form that a job carries: counts, and the first layers of each kind."""
    return {
        "layers": counts(results),
        "values": values_changed(result.report for result in results),
        "failed_layers": _first(result for result in results if result.error),
        "done_layers": _first(result for result in results if result.published),
        "index": location,
        "loaded": sum(result.published.rows for result in results if result.published),
    }


def failure_of(bundle: Bundle, results: Sequence[LayerResult]) -> GateError | None:
    """Return how the archive as a whole has failed, `None` if it has not.

    If no layer is published it is the error of the first, or a `HeldError` if
    a fact is all that each of them lacks; otherwise it is a `SomeLayersError`.
    """
    errors = [result.error for result in results if result.error]
    if not errors:
        return None
    said = "; ".join(
        f"{result.layer.name[:NAME_CHARACTERS]}: {result.error.code}: {result.error}"
        for result in results
        if result.error
    )
    if len(errors) < len(results):
        what = f"{len(errors)} of {len(results)} layers could not be loaded: {said}"
        return SomeLayersError(what, where=str(bundle))
    if len(errors) == 1:
        return errors[0]
    only_held = all(isinstance(error, HeldError) for error in errors)
    first = next(error for error in errors if only_held or not isinstance(error, HeldError))
    what = f"none of {len(results)} layers could be loaded: {said}"
    return type(first)(what, where=str(bundle), cure=first.todo)


def unforeseen(results: Sequence[LayerResult]) -> GateError | None:
    """Return the first error that another attempt may not meet again."""
    return next((each.error for each in results if isinstance(each.error, UnexpectedError)), None)


def _result(
    layer: ArchivedLayer, standing: Published | Outdated, report: Mapping[str, Any]
) -> LayerResult | Outdated:
    if isinstance(standing, Outdated):
        return standing
    return LayerResult(layer, standing, report)


def _first(results: Iterator[LayerResult]) -> list[dict[str, Any]]:
    shown = []
    for result, _ in zip(results, range(SHOWN_LAYERS), strict=False):
        content = result.as_json()
        content.pop("notices", None)
        for key in ("name", "spelled", "message"):
            if key in content:
                content[key] = content[key][: NAME_CHARACTERS * 2]
        shown.append(content)
    return shown


def _plain(notices: Sequence[Notice]) -> list[dict[str, Any]]:
    return [{"code": notice.code, "what": notice.what, "count": notice.count} for notice in notices]
