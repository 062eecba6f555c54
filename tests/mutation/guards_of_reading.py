"""The guards of what is read where it lies, and of what a deployment can take."""

from __future__ import annotations

from tests.mutation.guard import NOTHING, guards_of

_capacity = guards_of("capacity", "unit/test_capacity")

CAPACITY = (
    _capacity("a bundle beyond the setting is held", "if total > self.most_bytes:", "if False:"),
    _capacity(
        "a bundle that there is no time for is held",
        "if total > BYTES_PER_SECOND * run_seconds:",
        "if False:",
    ),
    _capacity("a bundle that memory has no room for is held", "if lying <= room:", "if True:"),
    _capacity("a small bundle is downloaded", "if total <= self.whole_bytes:", "if False:"),
    _capacity(
        "a reader that asks Fiona for everything needs files",
        "remote if self.piecemeal else ()",
        "remote",
    ),
    _capacity(
        "however little memory there is, what takes none of it is tried",
        "max(self.memory_bytes - WORKING_BYTES, 0)",
        "self.memory_bytes - WORKING_BYTES",
    ),
)

_ranges = guards_of("source/ranges", "unit/test_ranges")

RANGES = (
    _ranges(
        "the whole has to have the checksum of the object",
        "if index + 1 == self._count and self._whole.checksum != self._facts.crc32c:",
        "if False:",
    ),
    _ranges(
        "a block that is read again has to be what it was",
        "if checksum != self._checksums[index]:",
        "if False:",
    ),
    _ranges(
        "an object that is gone is told as such", "if isinstance(found, Gone):", "if found is None:"
    ),
    _ranges("few blocks are kept", "while len(self._kept) > KEPT_BLOCKS:", "while not self._kept:"),
    _ranges(
        "the next blocks are asked for",
        "ahead = AHEAD_BLOCKS if index == self._next else 0",
        "ahead = 0",
    ),
)

_files = guards_of("shapefile/files", "unit/test_remote_layers")

PROVEN = (
    _files(
        "no fault of the bundle is believed of bytes that are not proven",
        "        except (BundleError, HeldError):\n            self._prove()\n            raise\n",
        f"        {NOTHING}:\n            raise\n",
    ),
    _files(
        "what the check did not need is proven too",
        "            raise\n        self._prove()\n",
        "            raise\n",
    ),
)
