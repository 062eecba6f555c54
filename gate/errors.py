"""The errors of the gate: one tree, divided by what helps.

Every error that the gate raises on purpose is of one of four branches, and
stands here, but for those of the settings and of the local stack, which stand
beside what raises them. The branch says what the edge does with it, and nobody
else asks:

- `TransientError`: the same work may succeed later. The attempt is recorded
  and the event is redelivered.
- `BundleError`: the bundle itself is at fault. The job goes to *dead* at once;
  a retry would read the same bytes.
- `HeldError`: one fact is missing that a person can supply, or the deployment
  is too small. The job is *held* until a newer revision arrives, or until it is
  redriven with the fact in the metadata of an object, or under a larger limit.
- `ConfigurationError`: the deployment is at fault, not the bundle and not the
  moment. Nothing is acknowledged until it is mended.

Ordinary outcomes (a duplicate, a superseded revision, an object that was
overwritten) are values, not errors: see `gate.manifest` and `gate.job`.
"""

from __future__ import annotations

from typing import ClassVar


class GateError(Exception):
    """Say what happened, to what, and what to do about it.

    `code` is stable and short: it is what logs, jobs and dead letters carry
    and what a person selects by. `cure` is an instruction to a person.
    The message reads `where: what; cure`.
    """

    code: ClassVar[str] = "gate"
    cure: ClassVar[str] = "see the log"

    def __init__(self, what: str, *, where: str = "", cure: str = "") -> None:
        self.what = what
        self.where = where
        self.todo = cure or self.cure
        prefix = f"{where}: " if where else ""
        super().__init__(f"{prefix}{what}; {self.todo}")

    def with_cure(self, cure: str) -> GateError:
        """Return the same error with another instruction."""
        return type(self)(self.what, where=self.where, cure=cure)


class TransientError(GateError):
    """A failure that may pass by itself: redelivery helps."""

    code = "transient"
    cure = "it is tried again by itself"


class BundleError(GateError):
    """A fault in the uploaded files: redelivery cannot help, a new upload can."""

    code = "bundle"
    cure = "correct the files and upload the bundle again"


class HeldError(GateError):
    """A bundle that one fact or one decision from a person would make readable."""

    code = "held"
    cure = "supply the missing fact, and redrive the job or upload the bundle again"


class ConfigurationError(GateError):
    """A fault in the deployment: settings, permissions, missing services."""

    code = "configuration"
    cure = "correct the deployment and deploy again"


# --- transient --------------------------------------------------------------


class StoreBusyError(TransientError):
    """The state store refused for contention, quota or a lost connection."""

    code = "store_busy"


class StoreQuotaError(StoreBusyError):
    """The state store is over its quota: only waiting helps."""

    code = "store_quota"


class StorageBusyError(TransientError):
    """Cloud Storage answered with an error that passes by itself."""

    code = "storage_busy"


class DatabaseBusyError(StorageBusyError):
    """The database of the sink was lost, or refused for a lock, a full disk or a restart."""

    code = "database_busy"


class QueueBusyError(TransientError):
    """The queue of tasks refused for a quota, or could not be reached."""

    code = "queue_busy"


class ChecksumError(TransientError):
    """The bytes that arrived are not the bytes that are stored (crc32c)."""

    code = "checksum"
    cure = "it is downloaded again; if that keeps failing, upload the object again"


class SourceChangedError(TransientError):
    """An object was overwritten or deleted while it was read in parts."""

    code = "source_changed"
    cure = "the job gives way to what has replaced it"


class OutOfTimeError(TransientError):
    """The function's time was nearly up, so the attempt was stopped."""

    code = "out_of_time"
    cure = "it is tried again at once, and layers of an archive that are done are kept"


class ShutdownError(TransientError):
    """The platform stopped the instance, so the job was given back."""

    code = "shutdown"
    cure = "the next delivery takes the job over at once; no attempt was used up"


class UnexpectedError(TransientError):
    """Something nobody foresaw: tried again, because most of these pass."""

    code = "unexpected"
    cure = "it is tried again; if it ends as a dead letter, report it with its history"


# --- the bundle -------------------------------------------------------------


class MissingComponentError(BundleError):
    """A component that the format requires is not in the revision."""

    code = "missing_component"
    cure = "upload the missing file beside the others"


class EmptyComponentError(BundleError):
    """A required component holds no bytes, or fewer than its header."""

    code = "empty_component"
    cure = "upload the file again, whole"


class NotAShapefileError(BundleError):
    """The bytes are not what the extension says."""

    code = "not_a_shapefile"
    cure = "upload a real shapefile under this name"


class TruncatedError(BundleError):
    """A file ends before what its own header or index declares."""

    code = "truncated"
    cure = "upload the file again"


class CorruptError(BundleError):
    """A header or record contradicts itself or the format."""

    code = "corrupt"
    cure = "export the layer again and upload the whole bundle"


class TornBundleError(BundleError):
    """The components do not belong together: their record counts differ."""

    code = "torn_bundle"
    cure = "upload all components of one export together"


class MixedSpellingsError(BundleError):
    """Two bundles differ in case or accents only, and the newest files are of both."""

    code = "mixed_spellings"
    cure = "give one of the two another name, or upload all files of one spelling together"


class UnreadableError(BundleError):
    """GDAL refused the layer, or reported an error while reading it."""

    code = "unreadable"
    cure = "export the layer again and upload the whole bundle"


class LostRowsError(BundleError):
    """Rows read, deleted and rejected do not add up to the rows in the file."""

    code = "lost_rows"
    cure = "export the layer again and upload the whole bundle"


class RowsRejectedError(BundleError):
    """The layer has rows, and not one of them could be loaded."""

    code = "rows_rejected"
    cure = "see the reasons, correct the layer and upload the bundle again"


class UnsupportedError(BundleError):
    """A legal thing that this version cannot read, or the sink cannot hold."""

    code = "unsupported"
    cure = "convert the layer to a supported form and upload it again"


class RecordTooLargeError(BundleError):
    """One shape is larger than any worker can decode in one piece."""

    code = "record_too_large"
    cure = "split or simplify the shape of that row and upload the layer again"


class IncompleteError(BundleError):
    """A required component was never uploaded."""

    code = "incomplete"
    cure = "upload what is missing; what is there is kept, unless it was deleted"


class TooSlowError(BundleError):
    """No attempt was done with the bundle within the time of the function."""

    code = "too_slow"
    cure = (
        "split the layer, or give the function more processors or a longer timeout"
        " (and FUNCTION_TIMEOUT_SECONDS with it; with EXECUTOR=tasks up to half an hour), and"
        " redrive the job"
    )


class NotAnArchiveError(BundleError):
    """The bytes are not those of a zip archive."""

    code = "not_an_archive"
    cure = "upload a real zip archive under this name"


class NoLayerError(BundleError):
    """The archive is whole and holds no shapefile."""

    code = "no_layer"
    cure = "pack .shp, .shx and .dbf of each layer and upload the archive again"


class EncryptedError(BundleError):
    """A component inside the archive is encrypted."""

    code = "encrypted"
    cure = "pack the files again without a password and upload the archive"


class UnsafeArchiveError(BundleError):
    """An entry of the archive is named so as to leave its folder, or is a link."""

    code = "unsafe_archive"
    cure = "pack plain files under relative names and upload the archive again"


class SomeLayersError(BundleError):
    """Some layers of the archive could not be loaded; the others are in the sink."""

    code = "partial"
    cure = "correct the layers that are named and upload the archive again"


class SourceDeletedError(BundleError):
    """A pinned component was deleted before it could be read."""

    code = "source_deleted"
    cure = "upload the bundle again if it is still wanted"


class PermissionDeniedError(BundleError):
    """The function may not read or write an object; waiting does not help."""

    code = "permission"
    cure = "grant the function's service account access to the bucket, then redrive the job"


class DatasetTakenError(BundleError):
    """Another bundle already publishes under the name this one would take."""

    code = "dataset_taken"
    cure = "rename one of the two bundles and upload it again"


class SchemaMismatchError(BundleError):
    """The table that the rows belong in has other fields, or refuses the rows."""

    code = "schema_mismatch"
    cure = (
        "upload the bundle with the fields of the table, or alter the table or drop the views that"
        " keep it, then upload the bundle again"
    )


class AttemptsExhaustedError(BundleError):
    """Every attempt ended without a result, the last ones perhaps by a kill."""

    code = "attempts_exhausted"
    cure = (
        "see the history; raise the function's memory or timeout if it was killed,"
        " then redrive the job"
    )


# --- a fact is missing -------------------------------------------------------

# To set metadata sends no event that would start anything, so that is half the cure.
STATE_CRS = "set the metadata crs=EPSG:NUMBER on one of the objects and redrive the job"


class TooLargeError(HeldError):
    """The bundle is larger than what the deployment has time or memory for, or may take."""

    code = "too_large"
    cure = "split the layer, or raise MAX_BUNDLE_BYTES and redrive the job"


class MissingCrsError(HeldError):
    """The layer has no `.prj`, and the deployment takes no layer without a CRS."""

    code = "missing_crs"
    cure = f"upload the .prj, or {STATE_CRS}"


class UnreadableCrsError(HeldError):
    """The `.prj` is no CRS that PROJ knows, and the deployment takes no layer without one."""

    code = "unreadable_crs"
    cure = f"upload a sound .prj, or {STATE_CRS}"


class OutsideCrsError(HeldError):
    """Coordinates lie outside the domain of the CRS that was assumed for want of a `.prj`."""

    code = "outside_crs"
    cure = f"upload the .prj, or {STATE_CRS}"


class NoTransformationError(HeldError):
    """PROJ knows no way of stated accuracy from the CRS of the layer to `TARGET_CRS`."""

    code = "no_transformation"
    cure = f"if the .prj is wrong, {STATE_CRS}"


class UnknownOverrideError(HeldError):
    """The metadata of an object names an encoding, a CRS or a layer that does not exist."""

    code = "unknown_override"
    cure = "correct the metadata of the object and redrive the job"


class ConflictingOverridesError(HeldError):
    """The metadata of two components of one bundle contradict each other."""

    code = "conflicting_overrides"
    cure = "remove the metadata from one of the two or make them equal, and redrive the job"


# --- the deployment ----------------------------------------------------------


class MissingIndexError(ConfigurationError):
    """Firestore keeps no index of a field that the sweep asks for."""

    code = "missing_index"
    cure = "take away the exemption of this field from Firestore's automatic indexes"


# --- the event --------------------------------------------------------------


class MalformedEventError(GateError):
    """An event that no version of this function could process."""

    code = "malformed_event"
    cure = "find who sends it; it is acknowledged and kept as a dead letter"
