"""What a deployment has time and memory for, known before anything is downloaded.

The temporary folder of a function is memory. A small bundle is downloaded to it,
which costs the fewest requests; the main files of a larger one are read where
they lie, and take the same memory however large they are. What cannot be done
at all is held: to try would end in a kill, and so would every other attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from gate.errors import TooLargeError
from gate.names import PRIMARY_EXTENSIONS

WHOLE_BYTES = 32 << 20
# What reading and writing take beside files: see docs/reading.md.
WORKING_BYTES = 384 << 20
# A twelfth of what one processor was measured to do with points, to GeoParquet: repairs of
# polygons, transformations, other sinks and slower processors take longer.
BYTES_PER_SECOND = 5 << 20


@dataclass(frozen=True, slots=True)
class Capacity:
    """The limits of one deployment: what a bundle may hold, its memory, and the time of a run.

    A reader that is not `piecemeal` needs every file on the disk. The sink keeps
    so many `copies` of a dataset in the temporary folder. Up to `whole_bytes` are
    downloaded.
    """

    most_bytes: int
    memory_bytes: int
    run: timedelta
    piecemeal: bool = True
    copies: int = 0
    whole_bytes: int = WHOLE_BYTES

    def left_in_place(self, size_bytes: Mapping[str, int], where: str) -> tuple[str, ...]:
        """Return which components, of these sizes by extension, are read where they lie.

        An archive has to be downloaded. Raises `TooLargeError` for what the
        deployment cannot do.
        """
        total = sum(size_bytes.values())
        if total > self.most_bytes:
            what = f"its components hold {total} bytes, the limit is {self.most_bytes}"
            raise TooLargeError(what, where=where)
        self._demand_time(total, where)
        if total <= self.whole_bytes:
            return ()
        remote = tuple(known for known in PRIMARY_EXTENSIONS if known in size_bytes)
        left = remote if self.piecemeal else ()
        self._demand_memory(total, where, whole=not left, archived=not remote)
        return left

    def _demand_time(self, total: int, where: str) -> None:
        run_seconds = self.run // timedelta(seconds=1)
        if total > BYTES_PER_SECOND * run_seconds:
            raise TooLargeError(
                f"its components hold {total} bytes, more than the function can be trusted to"
                f" load within the {run_seconds} s of a run",
                where=where,
                cure="split the layer, or give the function a longer timeout (and"
                " FUNCTION_TIMEOUT_SECONDS with it), which EXECUTOR=tasks allows, and redrive the"
                " job",
            )

    def _demand_memory(self, total: int, where: str, *, whole: bool, archived: bool) -> None:
        """Raise `TooLargeError` if what lies in the temporary folder leaves no room for work."""
        lying = total * (self.copies + whole)
        room = max(self.memory_bytes - WORKING_BYTES, 0)
        if lying <= room:
            return
        if archived:
            instead = "upload the files as they are, which need not be downloaded"
        elif whole:
            instead = "set READER=auto, which need not download them"
        else:
            instead = "choose a form of dataset that needs no temporary file"
        raise TooLargeError(
            f"its components hold {total} bytes, of which {lying} would lie in memory, where there"
            f" is room for {room}",
            where=where,
            cure=f"{instead}, or give the function more memory, and redrive the job",
        )
