"""How much memory this process may use, which includes the temporary folder of a function."""

from __future__ import annotations

import os
from pathlib import Path

# Of control groups, version 2 and version 1 (cgroups(7)); "max" is no limit.
_LIMITS = ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_bytes(root: Path = Path("/")) -> int:
    """Return the memory of the machine, or the limit of this process's group if that is less."""
    known = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in _LIMITS:
        try:
            known.append(int((root / name).read_text()))
        except (OSError, ValueError):
            continue
    return min(known)
