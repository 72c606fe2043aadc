"""What the texts about leases share: which lease, whose, which process, and what to do."""

from collections.abc import Iterable
from typing import NamedTuple

from andon.explain.conditions.description import evidence_of
from andon.explain.evidence.observation import HeldDevices, ReservedDevices
from andon.explain.evidence.reasons import Evidence
from andon.model.alert import RESERVED_BY
from andon.model.device import Process
from andon.units import and_more

MOST_NAMED = 3
LEASE = "lease:"


class Holders(NamedTuple):
    """Who holds the device, and who uses it without a lease."""

    holders: tuple[HeldDevices, ...]
    strangers: tuple[Process, ...] = ()


class Blockers(NamedTuple):
    """A reservation at one moment, and who holds and uses its device instead."""

    reserved: ReservedDevices
    holders: tuple[HeldDevices, ...]
    strangers: tuple[Process, ...]
    at: float

    @property
    def devices(self) -> tuple[str, ...]:
        return self.reserved.devices


def reservation_evidence(about: Blockers) -> list[Evidence]:
    """Whose reservation it is and for when, and the leases and processes in its way."""
    one = about.reserved
    out: dict[str, float | str] = {
        "reservation": one.name, RESERVED_BY: one.user,
        "begins": one.begins, "ends": one.ends,
    }  # fmt: skip
    if about.holders:
        out["lease"] = ", ".join(held.id.rpartition(":")[2] for held in about.holders[:MOST_NAMED])
    if about.strangers:
        out["pids"] = ", ".join(str(process.pid) for process in about.strangers)
    return evidence_of(out)


def reservation_name(one: ReservedDevices) -> str:
    """`Reservation r7 (alice)`."""
    return f"Reservation {one.name} ({one.user})"


def release_advice(held: HeldDevices) -> str:
    """Returns how the owner can release it; empty if the claim is no lease."""
    if not held.id.startswith(LEASE):
        return ""
    name = held.id.removeprefix(LEASE)
    return f"If unused, {held.user or 'its owner'} can release it: andon release {name}"


def lease_evidence(held: HeldDevices, pids: Iterable[int] = ()) -> list[Evidence]:
    """The claim, its user, and its processes: the given ones, or those left of an orphan."""
    kind, _, name = held.id.partition(":")
    out: dict[str, float | str] = {kind: name, "since": held.since}
    if held.user:
        out["user"] = held.user
    named = list(pids) or [party.pid for party in held.who if held.orphaned]
    if named:
        out["pids"] = ", ".join(map(str, named))
    return evidence_of(out)


def named(holders: tuple[HeldDevices, ...]) -> str:
    """`lease k3x (alice) and job 17 (bob)`."""
    shown = [lease_name(held.id, held.user) for held in holders[:MOST_NAMED]]
    return " and ".join(shown) + and_more(len(holders) - MOST_NAMED)


def lease_name(number: str, user: str | None) -> str:
    """`lease k3x (alice)`."""
    kind, _, name = number.rpartition(":")
    called = f"{kind or 'lease'} {name}"
    return f"{called} ({user})" if user else called


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]
