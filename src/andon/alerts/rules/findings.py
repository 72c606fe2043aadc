"""What devices report on their own, and what the conditions about leases find."""

from collections.abc import Iterable, Iterator, Mapping, Set

from andon.alerts.rules.state import Episode
from andon.explain.conditions.catalogue import RULES
from andon.explain.conditions.finding import ENDED, UNKNOWN, Finding
from andon.explain.conditions.judging import (
    DeviceReservation,
    OnEvents,
    OnLease,
    OnLeaseEnd,
    OnReservation,
    OnReserved,
    OnSharing,
    SharedDevice,
    Statuses,
)
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.observation import (
    HeldDevices,
    Observation,
    PreviousLease,
    ReservedDevices,
    Sharing,
)
from andon.model.alert import Alert
from andon.model.device import DeviceStatus
from andon.model.event import Event
from andon.model.thresholds import Thresholds

# Takes in what devices report on their own: numbered errors, and error counters that rise.

EVENT_RULES = tuple((r.name, r.judged) for r in RULES if isinstance(r.judged, OnEvents))
SAME_SECONDS = 2.0  # the same event may arrive from two sources
OLD_SECONDS = 86_400.0

Taken = list[tuple[str, str, Finding]]


def judge_events(
    events: Iterable[Event],
    wall: float,
    known: Set[str],
    before: Mapping[str, Mapping[int, float]],
) -> tuple[Taken, Mapping[str, Mapping[int, float]]]:
    """Returns the findings of new events, and the newest event of each code; an event that names
    no known device belongs to the node."""
    newest = {subject: dict(codes) for subject, codes in before.items()}
    found: dict[tuple[str, str], Finding] = {}
    for event in sorted(events, key=lambda event: event.at):
        subject = event.uuid if event.uuid is not None and event.uuid in known else "node"
        for name, judged in EVENT_RULES:
            fits = event.kind in judged.takes
            if fits and (not judged.once or _is_new(event, newest.setdefault(subject, {}), wall)):
                found[subject, name] = judged.judge(found.get((subject, name)), event)
    taken = [(subject, rule, finding) for (subject, rule), finding in found.items()]
    return taken, newest


def _is_new(event: Event, newest: dict[int, float], wall: float) -> bool:
    code = -1 if event.code is None else event.code
    seen = newest.get(code)
    if seen is not None and seen > wall + SAME_SECONDS:
        seen = None  # the clock was set back since: it must not hide what happens now
    if wall - event.at > OLD_SECONDS or (seen is not None and event.at <= seen + SAME_SECONDS):
        return False
    newest[code] = event.at
    for old in [c for c, at in newest.items() if wall - at > 2 * OLD_SECONDS]:
        del newest[old]
    return True


# What the conditions about leases find: in each lease, and on each device of one.

LEASE = "lease:"
LEASE_JUDGES = tuple((r.name, r.judged.judge) for r in RULES if isinstance(r.judged, OnLease))
END_WITH_LEASE = tuple(
    r.name for r in RULES if isinstance(r.judged, OnLease) and r.judged.ends_with_lease
)
SHARING_JUDGES = tuple(
    (r.name, r.judged.judge, r.judged.after_lease) for r in RULES if isinstance(r.judged, OnSharing)
)
RESERVED_JUDGES = tuple((r.name, r.judged.judge) for r in RULES if isinstance(r.judged, OnReserved))
RESERVATION_JUDGES = tuple(
    (r.name, r.judged.judge) for r in RULES if isinstance(r.judged, OnReservation)
)
ENDING_JUDGES = tuple((r.name, r.judged.judge) for r in RULES if isinstance(r.judged, OnLeaseEnd))
RESERVATION_NAMES = frozenset(
    name for name, _ in (*RESERVED_JUDGES, *RESERVATION_JUDGES, *ENDING_JUDGES)
)
NAMES = frozenset(r.name for r in RULES if isinstance(r.judged, OnLease | OnSharing))

Episodes = Mapping[str, Mapping[str, Episode]]
Judged = Iterator[tuple[str, str, Finding]]
"""Subject, rule and finding, unless all is calm."""


def lease_findings(
    observation: Observation,
    statuses: Statuses,
    divided: frozenset[str],
    episodes: Episodes,
    figures: Thresholds,
) -> Judged:
    """The findings from the lease book; none if there is no lease, no recent one, and no alert
    about one."""
    leases, sharing = observation.leases, observation.sharing
    if leases is None:
        yield from ((s, r, UNKNOWN) for s, on in episodes.items() for r in NAMES.intersection(on))
        return
    about = {subject for subject, on in episodes.items() if not NAMES.isdisjoint(on)}
    if not leases and not about and not sharing.former:
        return
    yield from _of_leases(leases, about, statuses, episodes, figures)
    holders = _by_device(leases)
    for uuid in {*sharing.strangers, *sharing.former, *about}:
        status, on = statuses.get(uuid), episodes.get(uuid, {})
        if status is not None:  # a device that is not listed has no data for any rule
            yield from _of_device(status, holders.get(uuid, ()), sharing, on, uuid in divided)


def _of_leases(
    leases: tuple[HeldDevices, ...],
    about: set[str],
    statuses: Statuses,
    episodes: Episodes,
    figures: Thresholds,
) -> Judged:
    for held in leases:
        if held.id.startswith(LEASE):
            for name, judge in LEASE_JUDGES:
                finding = judge(held, statuses, figures)
                if finding is not None:
                    yield held.id, name, finding
    for ended in about - {held.id for held in leases}:
        for name in END_WITH_LEASE:
            if name in episodes[ended]:
                yield ended, name, ENDED


def _of_device(
    status: DeviceStatus,
    holders: tuple[HeldDevices, ...],
    sharing: Sharing,
    on: Mapping[str, Episode],
    divided: bool,
) -> Judged:
    uuid = status.device.uuid
    former = sharing.former.get(uuid)
    for name, judge, after_lease in SHARING_JUDGES:
        if (former is not None if after_lease else uuid in sharing.strangers) or name in on:
            whose = _remembered(on[name].alert) if former is None and name in on else former
            finding = judge(SharedDevice(status, holders, sharing, whose, divided))
            if finding is not None:
                yield uuid, name, finding


def _by_device(leases: Iterable[HeldDevices]) -> dict[str, tuple[HeldDevices, ...]]:
    found: dict[str, tuple[HeldDevices, ...]] = {}
    for held in leases:
        for uuid in held.devices:
            found[uuid] = (*found.get(uuid, ()), held)
    return found


def _remembered(known: Alert) -> PreviousLease:
    """Returns the lease that the alert recorded, for a server that was restarted since."""
    evidence = known.evidence
    user = evidence.get("user")
    return PreviousLease(str(evidence.get("lease", "")), None if user is None else str(user), 0.0)


# What the conditions about reservations find: in each of them, and on each of its devices.


def reservation_findings(
    observation: Observation, statuses: Statuses, episodes: Episodes, rulebook: Rulebook
) -> Judged:
    """The findings about reservations; none if nothing is reserved and no alert is about it."""
    about = {subject for subject, on in episodes.items() if not RESERVATION_NAMES.isdisjoint(on)}
    if not observation.reserved and not about:
        return
    leases, at = observation.leases, observation.snapshot.at
    if leases is None:
        yield from ((s, r, UNKNOWN) for s in about for r in RESERVATION_NAMES & episodes[s].keys())
        return
    ahead = [one for one in observation.reserved if not one.is_over(at)]
    ahead.sort(key=lambda one: one.begins)
    yield from _of_reservations(ahead, leases, statuses, at, rulebook.thresholds)
    yield from _of_reserved(ahead, observation, statuses, rulebook)
    yield from _of_endings(ahead, leases, at, rulebook.thresholds)
    there = ((one.id, *one.devices) for one in ahead)
    for subject in about.difference(*there, (held.id for held in leases)):
        yield from ((subject, r, ENDED) for r in RESERVATION_NAMES & episodes[subject].keys())


def _of_reservations(
    ahead: list[ReservedDevices],
    leases: tuple[HeldDevices, ...],
    statuses: Statuses,
    at: float,
    figures: Thresholds,
) -> Judged:
    for one in ahead:
        unlisted = statuses.keys().isdisjoint(one.devices)
        for name, judge in RESERVATION_JUDGES:
            finding = UNKNOWN if unlisted else judge(one, leases, at, figures)
            if finding is not None:
                yield one.id, name, finding


def _of_endings(
    ahead: list[ReservedDevices],
    leases: tuple[HeldDevices, ...],
    at: float,
    figures: Thresholds,
) -> Judged:
    """The findings about leases that end before a reservation, less than an hour before."""
    for held in leases:
        following = (one for one in ahead if one.follows(held.devices, held.user, held.until))
        one = next(following, None) if held.id.startswith(LEASE) else None
        for name, judge in ENDING_JUDGES if one is not None else ():
            if one is not None and (finding := judge(held, one, at, figures)) is not None:
                yield held.id, name, finding


def _of_reserved(
    ahead: list[ReservedDevices],
    observation: Observation,
    statuses: Statuses,
    rulebook: Rulebook,
) -> Judged:
    holders = _by_device(observation.leases or ())
    for uuid in {uuid for one in ahead for uuid in one.devices} & statuses.keys():
        status = statuses[uuid]
        shared = SharedDevice(status, holders.get(uuid, ()), observation.sharing, None)
        figures, at = rulebook.for_device(status.device), observation.snapshot.at
        seen = [DeviceReservation(shared, one, at, figures) for one in ahead if uuid in one.devices]
        for name, judge in RESERVED_JUDGES:
            finding = _first([judge(one) for one in seen])
            if finding is not None:
                yield uuid, name, finding


def _first(found: list[Finding | None]) -> Finding | None:
    """Returns the first finding that holds; else None if one is calm, else the first."""
    held = next((one for one in found if one is not None and one.holds), None)
    return held if held is not None or None in found else found[0]
