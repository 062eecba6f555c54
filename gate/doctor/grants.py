"""Checks of grants: whether an IAM policy gives an identity one of the roles that suffice.

A policy that is inherited from a folder or an organisation is not looked at, and
what a role of one's own contains is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gate.doctor.finding import Finding, failed, ok, unchecked

STORAGE_READ = (
    "roles/storage.objectViewer",
    "roles/storage.objectUser",
    "roles/storage.objectAdmin",
    "roles/storage.admin",
)
STORAGE_WRITE = STORAGE_READ[1:]
DATABASE = ("roles/datastore.user", "roles/datastore.owner", "roles/editor", "roles/owner")
PUBLISH = ("roles/pubsub.publisher", "roles/pubsub.editor", "roles/pubsub.admin")
RECEIVE = ("roles/eventarc.eventReceiver", "roles/eventarc.admin")
INVOKE = ("roles/run.invoker", "roles/run.admin")


@dataclass(frozen=True, slots=True)
class Need:
    """What an identity must be allowed to do: `roles` suffice each, the first is the least."""

    member: str
    what: str
    where: str
    roles: tuple[str, ...]

    @property
    def check(self) -> str:
        """Return the name of the check."""
        return "grants"


def granted(need: Need, *policies: Any) -> Finding:
    """Return whether one of the policies gives what is needed."""
    roles = held(need.member, policies)
    found = [role for role in need.roles if role in roles]
    who = need.member.partition(":")[2]
    if found:
        return ok(need.check, need.where, f"{who} may {need.what}, by {found[0]}")
    own = [role for role in roles if not role.startswith("roles/")]
    if own:
        return unchecked(
            need.check,
            need.where,
            f"whether {who} may {need.what} depends on {', '.join(own)}",
            f"see that it contains what {need.roles[0]} does",
        )
    return failed(
        need.check,
        need.where,
        f"{who} may not {need.what}",
        f"grant it {need.roles[0]}, unless it is inherited from a folder",
    )


def held(member: str, policies: Sequence[Any]) -> list[str]:
    """Return the roles that a member has by these policies, conditional ones too."""
    bindings = [each for policy in policies for each in policy.get("bindings", ())]
    return [each["role"] for each in bindings if member in each.get("members", ())]
