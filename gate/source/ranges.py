"""An object that stays in the bucket and is read in parts, each of them proven.

Cloud Storage tells the checksum of whole objects only. So the first time, an
object is read from its first byte to its last, however it is asked for: the
checksum of each block is kept, and that of all of them must be the object's.
From then on every block is read in whatever order, and has to be what it was.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from gate import crc32c
from gate.errors import ChecksumError, SourceChangedError
from gate.gather import Bytes
from gate.source.port import Gone, ObjectFacts, Source

# One request for each: large enough for its way there and back not to count.
BLOCK_BYTES = 4 << 20
# How many blocks are under way while one is used, and how many stay at hand.
AHEAD_BLOCKS = 2
KEPT_BLOCKS = 2


class Ranges:
    """The bytes of one pinned object, as slices: a `gate.shapefile.port.Remote`.

    Blocks are asked for ahead as long as they follow each other. Any thread may
    read; they do so one at a time. To be closed.
    """

    def __init__(
        self, source: Source, bucket: str, facts: ObjectFacts, block_bytes: int = BLOCK_BYTES
    ) -> None:
        self._source = source
        self._bucket = bucket
        self._facts = facts
        self._block_bytes = block_bytes
        self._count = -(-facts.size_bytes // block_bytes)
        self._whole = crc32c.Running()
        self._checksums: list[str] = []
        self._kept: OrderedDict[int, Bytes] = OrderedDict()
        self._coming: dict[int, Future[bytes | Gone]] = {}
        self._next = 0
        self._pool = ThreadPoolExecutor(AHEAD_BLOCKS, thread_name_prefix="ranges")
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """Return how many bytes the object has."""
        return self._facts.size_bytes

    def __getitem__(self, part: slice, /) -> Bytes:
        """Return these bytes, proven if the whole object has been read before.

        Raises `ChecksumError` for bytes that are not the object's, or not those of
        the first time; `SourceChangedError` once the generation is gone; and what
        the source raises.
        """
        start, stop, _ = part.indices(self.size)
        if start >= stop:
            return np.empty(0, np.uint8)
        step, pieces = self._block_bytes, []
        with self._lock:
            for index in range(start // step, (stop - 1) // step + 1):
                block, begin = self._block(index), index * step
                pieces.append(block[max(start - begin, 0) : stop - begin])
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def prove(self) -> None:
        """Read what has not been read, and prove the whole; raises what a slice does."""
        with self._lock:
            self._advance(self._count)

    def close(self) -> None:
        """Ask for nothing more, and wait for nothing; closing twice is harmless."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _block(self, index: int) -> Bytes:
        self._advance(index + 1)
        if index not in self._kept:
            content = self._received(index)
            checksum = crc32c.of_bytes(content)
            if checksum != self._checksums[index]:
                what = f"crc32c of block {index} is {checksum}, it was {self._checksums[index]}"
                raise ChecksumError(what, where=self._where)
            self._keep(index, content)
        self._kept.move_to_end(index)
        return self._kept[index]

    def _advance(self, count: int) -> None:
        """Read, in order, so many blocks for the first time; the last one proves them all."""
        while len(self._checksums) < count:
            index = len(self._checksums)
            content = self._received(index)
            self._whole.add(content)
            if index + 1 == self._count and self._whole.checksum != self._facts.crc32c:
                what = f"crc32c is {self._whole.checksum}, not {self._facts.crc32c}"
                raise ChecksumError(what, where=self._where)
            self._checksums.append(crc32c.of_bytes(content))
            self._keep(index, content)

    def _keep(self, index: int, content: bytes) -> None:
        self._kept[index] = np.frombuffer(content, np.uint8)
        while len(self._kept) > KEPT_BLOCKS:
            self._kept.popitem(last=False)

    def _received(self, index: int) -> bytes:
        """Return a block, waiting for it; ask for the next ones first, if blocks are in order."""
        ahead = AHEAD_BLOCKS if index == self._next else 0
        wanted = range(index, min(index + 1 + ahead, self._count))
        coming = {each: self._coming.get(each) or self._ask(each) for each in wanted}
        content = coming.pop(index)
        self._coming, self._next = coming, index + 1
        found = content.result()
        if isinstance(found, Gone):
            raise SourceChangedError("is gone while it is read", where=self._where)
        return found

    def _ask(self, index: int) -> Future[bytes | Gone]:
        begin = index * self._block_bytes
        end = min(begin + self._block_bytes, self.size)
        return self._pool.submit(self._source.read, self._bucket, self._facts, begin, end)

    @property
    def _where(self) -> str:
        return f"gs://{self._bucket}/{self._facts.name}"
