"""The simulation's database held to a real Firestore: the same seed, the same run."""

from __future__ import annotations

import pytest

from tests.emulator.firestore import connected
from tests.simulation.run import run
from tests.simulation.served import Served


@pytest.mark.parametrize("seed", range(4))
def test_a_seed_runs_on_firestore_as_it_does_in_memory(firestore_address: str, seed: int) -> None:
    """A run over the emulator keeps every promise, and is the run in memory, line by line."""
    client = connected(firestore_address)
    served = run(seed, open_database=lambda clock: Served(client, clock))
    in_memory = run(seed)
    assert served.faults == ()
    assert served.account == in_memory.account
    assert served.documents == in_memory.documents
