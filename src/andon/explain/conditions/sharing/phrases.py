"""What the texts about leases share: which lease, whose, which process, and what to do."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from andon.explain.conditions.condition import NOTHING, AlertFacts
from andon.explain.conditions.finding import Finding
from andon.explain.evidence.observation import HeldDevices
from andon.model.device import Process
from andon.units import human_seconds

MOST_NAMED = 3
LEASE = "lease:"


class Holders(NamedTuple):
    """Who holds the device, and who uses it without a lease."""

    holders: tuple[HeldDevices, ...]
    strangers: tuple[Process, ...] = ()


def release_advice(facts: AlertFacts) -> str | None:
    """Returns how the owner can release it; None if the claim is no lease."""
    about = facts.finding.about
    if not isinstance(about, Holders) or not about.holders[0].id.startswith(LEASE):
        return None
    held = about.holders[0]
    name = held.id.removeprefix(LEASE)
    return f"If unused, {held.user or 'its owner'} can release it: andon release {name}"


def lease_evidence(held: HeldDevices, pids: Iterable[int] = ()) -> Mapping[str, float | str]:
    """The claim, its user, and its processes: the given ones, or those left of an orphan."""
    kind, _, name = held.id.partition(":")
    out: dict[str, float | str] = {kind: name, "since": held.since}
    if held.user:
        out["user"] = held.user
    named = list(pids) or [party.pid for party in held.who if held.orphaned]
    return {**out, "pids": ", ".join(map(str, named))} if named else out


def holder_evidence(found: Finding) -> Mapping[str, float | str]:
    about = found.about
    if not isinstance(about, Holders):
        return NOTHING
    return lease_evidence(about.holders[0], (process.pid for process in about.strangers))


def named(holders: tuple[HeldDevices, ...]) -> str:
    """`lease k3x (alice) and job 17 (bob)`."""
    shown = [lease_name(held.id, held.user) for held in holders[:MOST_NAMED]]
    more = f" and {len(holders) - MOST_NAMED} more" if len(holders) > MOST_NAMED else ""
    return " and ".join(shown) + more


def lease_name(number: str, user: str | None) -> str:
    """`lease k3x (alice)`."""
    kind, _, name = number.rpartition(":")
    called = f"{kind or 'lease'} {name}"
    return f"{called} ({user})" if user else called


def lasting(text: str, facts: AlertFacts) -> str:
    """The sentence with its duration at the end."""
    lasted = facts.lasted_seconds
    return f"{text} for {human_seconds(lasted)}" if lasted >= 1 else text


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]
