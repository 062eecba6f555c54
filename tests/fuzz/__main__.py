"""Fuzz one target for a bounded time: `python -m tests.fuzz layer -max_total_time=60`.

What it finds is written to tests/fuzz/finds/TARGET, and tests/unit/test_fuzz.py
replays everything that lies there. Other arguments go to libFuzzer.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["gate"]):
    from tests.fuzz.targets import SEEDS, TARGETS

FINDS = Path(__file__).parent / "finds"


def main(name: str, arguments: list[str]) -> None:
    """Run one target until its time is over or something is found."""
    finds = FINDS / name
    finds.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(SEEDS[name]()):
            Path(corpus, f"seed-{number}").write_bytes(seed)
        limits = ["-timeout=20", "-rss_limit_mb=1500", "-max_len=8192", "-print_final_stats=1"]
        place = f"-artifact_prefix={finds}/"
        atheris.Setup([sys.argv[0], corpus, place, *limits, *arguments], TARGETS[name])
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
