"""Two protocols that the gate does not use, kept to be measured beside the one it does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from google.api_core import exceptions as api
from google.cloud import firestore

from gate.errors import StoreBusyError
from gate.identity import Revision, bundle_id, job_id
from gate.manifest import Manifest
from gate.names import Component
from gate.store.firestore import CALL_SECONDS, Collections, FirestoreStore


class BegunStore(FirestoreStore):
    """The same writes, each in a transaction that is begun first and reads nothing."""

    def __init__(self, client: firestore.Client, *others: Any) -> None:
        super().__init__(client, *others)
        self._begun_by = client

    def _commit(self, write: Callable[[Any], None]) -> list[firestore.types.WriteResult] | None:
        transaction = self._begun_by.transaction()
        try:
            firestore.transactional(write)(transaction)
        except (api.AlreadyExists, api.FailedPrecondition):
            return None
        except (ValueError, api.Aborted) as error:
            raise StoreBusyError(str(error)) from error
        return list(transaction.write_results)


class ReadThenWrite:
    """The obvious protocol: one transaction reads claim and manifest, then writes both.

    `found` is what a listing of the bucket would show of a bundle. A call
    returns whether it dispatched the bundle; it raises what the client raises.
    """

    def __init__(
        self,
        client: firestore.Client,
        collections: Collections,
        required: tuple[str, ...],
        found: Callable[[Component], dict[str, int]],
    ) -> None:
        self._client = client
        self._collections = collections
        self._required = required
        self._found = found

    def __call__(self, component: Component, generation: int) -> bool:
        """Take in one generation of a component."""

        def body(transaction: firestore.Transaction) -> bool:
            return self._decided(transaction, component, generation)

        return bool(firestore.transactional(body)(self._client.transaction()))

    def _decided(
        self, transaction: firestore.Transaction, component: Component, generation: int
    ) -> bool:
        bundle = component.bundle
        claim_ref = self._reference(
            self._collections.claims, job_id(bundle.bucket, component.name, generation)
        )
        manifest_ref = self._reference(self._collections.manifests, bundle_id(bundle))
        claim, manifest = self._read(transaction, (claim_ref, manifest_ref))
        if claim:
            return False
        known = {**manifest.get("components", {}), component.name: generation}
        current = Manifest(bundle, known).current()
        due = not manifest.get("dispatched") and all(each in current for each in self._required)
        if due:
            known = {**known, **self._found(component)}
            current = Manifest(bundle, known).current()
            job_ref = self._reference(self._collections.jobs, Revision.of(bundle, current).id)
            transaction.create(job_ref, {"state": "running", "created_at": datetime.now(UTC)})
        transaction.create(claim_ref, {"name": component.name, "generation": generation})
        dispatched = due or manifest.get("dispatched", False)
        transaction.set(manifest_ref, {"components": known, "dispatched": dispatched})
        return due

    def _read(
        self, transaction: firestore.Transaction, references: Iterable[firestore.DocumentReference]
    ) -> list[dict[str, Any]]:
        wanted = list(references)
        found = {
            snapshot.id: snapshot.to_dict() or {}
            for snapshot in transaction.get_all(wanted, timeout=CALL_SECONDS)
        }
        return [found[reference.id] for reference in wanted]

    def _reference(self, collection: str, key: str) -> firestore.DocumentReference:
        return self._client.collection(collection).document(key)
