"""Checks of what becomes of dead letters: there is a topic, and somebody keeps what it gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gate.doctor.finding import Finding, failed, ok, warning


def untold(where: str) -> Finding:
    """Return what a deployment without a topic is told."""
    return warning(
        "dead_letters",
        where,
        "dead letters stand in the log and in their jobs only",
        "create a topic with a subscription, and deploy with DEAD_LETTER_TOPIC",
    )


def subscriptions(
    topic: str, described: Sequence[Mapping[str, Any]], project: str
) -> Iterator[Finding]:
    """Yield whether what is published to a topic is kept.

    `project` is where a subscription would be made.
    Pub/Sub drops what is published to a topic without a subscription, and by
    default a subscription that nobody asks for 31 days (Pub/Sub, "Subscription
    properties").
    """
    where = f"topic {topic}"
    if not described:
        yield failed(
            "dead_letters",
            where,
            "nobody has subscribed to it: every dead letter is lost",
            f"gcloud pubsub subscriptions create gate-dead-letters --topic={topic}"
            f" --expiration-period=never --message-retention-duration=7d --project={project}",
        )
        return
    for each in described:
        full_name = str(each.get("name", ""))
        where = f"subscription {full_name.rpartition('/')[2]}"
        lifetime = each.get("expirationPolicy", {}).get("ttl")
        if lifetime:
            yield warning(
                "dead_letters",
                where,
                f"it vanishes when nobody has asked it for {lifetime}",
                f"gcloud pubsub subscriptions update {full_name} --expiration-period=never",
            )
        else:
            yield ok("dead_letters", where, "it keeps dead letters, and stays")
