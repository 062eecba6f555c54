"""Every guard of the use cases and of the store on objects, for `without` to take away."""

from __future__ import annotations

from tests.mutation.guard import Guard
from tests.mutation.guards_of_blobs import AGENDA, BLOBS, MERGING
from tests.mutation.guards_of_events import INGEST, INTAKE
from tests.mutation.guards_of_gates import LISTING, POLL, VERIFY
from tests.mutation.guards_of_leases import FETCHING, HEARTBEAT, OWNERSHIP, PUBLISHING
from tests.mutation.guards_of_reading import CAPACITY, PROVEN, RANGES
from tests.mutation.guards_of_sweeps import LOOK, RECONCILE, REDRIVE, SWEEP
from tests.mutation.guards_of_tasks import HANDED_OVER, WORK

GUARDS: tuple[Guard, ...] = (
    *INTAKE,
    *INGEST,
    *LISTING,
    *VERIFY,
    *POLL,
    *OWNERSHIP,
    *HEARTBEAT,
    *PUBLISHING,
    *FETCHING,
    *CAPACITY,
    *RANGES,
    *PROVEN,
    *SWEEP,
    *LOOK,
    *RECONCILE,
    *REDRIVE,
    *HANDED_OVER,
    *WORK,
    *MERGING,
    *BLOBS,
    *AGENDA,
)
