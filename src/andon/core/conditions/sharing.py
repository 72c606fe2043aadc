"""How the rules judge the lease book: squatters, idle leases, orphans, memory left behind."""

from collections.abc import Iterable, Iterator, Mapping

from andon.core.conditions.finding import ENDED, UNKNOWN, Judgement
from andon.core.conditions.rulebook import Rulebook
from andon.core.conditions.state import Episode, HeldDevices, PreviousLease, Sharing
from andon.core.conditions.unattributed import (
    least_unattributed_bytes,
    owns_memory,
    unattributed_bytes,
)
from andon.core.sampling.idleness import ZERO_READING
from andon.model.alert import Alert
from andon.model.device import DeviceStatus, State

LEASE = "lease:"
RULES = frozenset({"squatter", "idle_lease", "orphan", "leftover_memory"})

Statuses = Mapping[str, DeviceStatus]
Episodes = Mapping[str, Mapping[str, Episode]]
Judged = Iterator[tuple[str, str, Judgement | None]]
"""Subject, rule and finding; None if all is calm."""


def sharing_findings(
    leases: tuple[HeldDevices, ...] | None,
    sharing: Sharing,
    statuses: Statuses,
    divided: frozenset[str],
    episodes: Episodes,
    rulebook: Rulebook,
) -> Judged:
    """The findings from the lease book; none if there is no lease, no recent one, and no alert
    about one."""
    if leases is None:
        yield from ((s, r, UNKNOWN) for s, on in episodes.items() for r in RULES.intersection(on))
        return
    about = {subject for subject, on in episodes.items() if not RULES.isdisjoint(on)}
    if not leases and not about and not sharing.former:
        return
    yield from _of_leases(leases, about, statuses, episodes, rulebook)
    holders = _by_device(leases)
    for uuid in {*holders, *sharing.former, *about}:
        status, on = statuses.get(uuid), episodes.get(uuid, {})
        if status is not None:  # a device that is not listed has no data for any rule
            yield from _of_device(status, holders.get(uuid, ()), sharing, on, uuid in divided)


def _of_leases(
    leases: tuple[HeldDevices, ...],
    about: set[str],
    statuses: Statuses,
    episodes: Episodes,
    rulebook: Rulebook,
) -> Judged:
    for held in leases:
        if held.id.startswith(LEASE):
            yield held.id, "orphan", Judgement(1, details=(held,)) if held.orphaned else None
            yield held.id, "idle_lease", _idle_lease(held, statuses, rulebook)
    for ended in about - {held.id for held in leases}:
        if "idle_lease" in episodes[ended]:
            yield ended, "idle_lease", ENDED


def _of_device(
    status: DeviceStatus,
    holders: tuple[HeldDevices, ...],
    sharing: Sharing,
    on: Mapping[str, Episode],
    divided: bool,
) -> Judged:
    uuid = status.device.uuid
    if holders or "squatter" in on:
        yield uuid, "squatter", squatter(status, holders, sharing)
    if uuid in sharing.former or "leftover_memory" in on:
        known = on["leftover_memory"].alert if "leftover_memory" in on else None
        former = sharing.former.get(uuid)
        yield (
            uuid,
            "leftover_memory",
            leftover_memory(status, bool(holders), former, known, divided),
        )


def squatter(
    status: DeviceStatus, holders: tuple[HeldDevices, ...], sharing: Sharing
) -> Judgement | None:
    """A process without a lease computes on a leased device."""
    if not holders:
        return ENDED
    if not status.answered:
        return None if status.state is State.ASLEEP else UNKNOWN
    pids = sharing.strangers.get(status.device.uuid, frozenset())
    found = tuple(process for process in status.processes if process.pid in pids)
    if found:
        sizes = [process.memory_bytes for process in found]
        used = None if None in sizes else sum(size for size in sizes if size is not None)
        return Judgement(1, 0, used, None, status.device.memory_total_bytes, (holders, found))
    return UNKNOWN if status.device.uuid in sharing.unsure else None


def leftover_memory(
    status: DeviceStatus,
    held: bool,
    former: PreviousLease | None,
    known: Alert | None,
    divided: bool = False,
) -> Judgement | None:
    """Memory left behind by the previous lease; a new holder ends the alert.

    The alert itself also records which lease it was: a server that has been restarted never saw
    that lease.
    """
    device = status.device
    if held:
        return ENDED
    if not owns_memory(device, divided) or status.state is State.ASLEEP:
        return None
    spare = unattributed_bytes(status, divided)
    if spare is None:
        return UNKNOWN
    if not spare:
        return None
    least = least_unattributed_bytes(device.memory_total_bytes, len(status.processes))
    whose = former or _remembered(known)
    return Judgement(1, 0, spare, least, device.memory_total_bytes, (whose,))


def _idle_lease(held: HeldDevices, statuses: Statuses, rulebook: Rulebook) -> Judgement | None:
    """All its devices are idle; one in use ends that, one without data makes it unknown."""
    if held.orphaned:
        return ENDED
    busy = [_busy(statuses.get(uuid)) for uuid in held.devices]
    if any(share is not None and share > ZERO_READING for share in busy):
        return None
    if None in busy or not busy:
        return UNKNOWN
    return Judgement(1, 0, 0.0, rulebook.thresholds.idle_lease_seconds, None, (held,))


def _busy(status: DeviceStatus | None) -> int | None:
    if status is None or not status.answered or status.sample is None:
        return None
    return status.sample.utilization_percent


def _by_device(leases: Iterable[HeldDevices]) -> dict[str, tuple[HeldDevices, ...]]:
    found: dict[str, tuple[HeldDevices, ...]] = {}
    for held in leases:
        for uuid in held.devices:
            found[uuid] = (*found.get(uuid, ()), held)
    return found


def _remembered(known: Alert | None) -> PreviousLease:
    said = known.evidence if known is not None else {}
    user = said.get("user")
    return PreviousLease(str(said.get("lease", "")), None if user is None else str(user), 0.0)
