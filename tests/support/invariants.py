"""Invariants of states that change step by step: tests check them after every step."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from andon.alerts.rules.outbox import MOST_DELIVERIES, MOST_OPEN, Outbox
from andon.alerts.rules.state import AlertState, Episode
from andon.explain.conditions.catalogue import BY_NAME
from andon.failures.rules.backoff import Failures
from andon.history.rules.backlog import MOST_TICKS, MOST_USES, Backlog
from andon.jobs.rules.dispatch import (
    BlockedJob,
    DispatchPlan,
    PlannedStart,
    QueuedJob,
    barring,
    blocked_job,
)
from andon.leases.rules.capacity import DeviceCapacity
from andon.leases.rules.choice import obstacle
from andon.model.alert import Level, Phase
from andon.work.rules.map.plan import MapPlan


def check_alerts(state: AlertState) -> None:
    """Raise ValueError if the state contradicts itself."""
    ids = set()
    for subject, on in state.episodes.items():
        if not on:
            raise ValueError(f"{subject} is kept without an alert")
        for rule, episode in on.items():
            if (episode.alert.rule, episode.alert.subject) != (rule, subject):
                raise ValueError(f"{episode.alert.id} is filed under {rule}@{subject}")
            if episode.alert.id in ids:
                raise ValueError(f"{episode.alert.id} is listed twice")
            ids.add(episode.alert.id)
            for wrong in _wrongs(episode):
                raise ValueError(f"{episode.alert.id}: {wrong}")
    for key, newest in state.seconds.items():
        if any(i.startswith(f"{key}#") and int(i.rpartition("#")[2]) > newest for i in ids):
            raise ValueError(f"{key} has an id of a later second")


def _wrongs(episode: Episode) -> list[str]:
    alert, rungs = episode.alert, BY_NAME[episode.alert.rule].rungs
    firing = alert.state is Phase.FIRING
    told = episode.notified_rank
    checks = {
        "it is resolved but kept": alert.state is Phase.RESOLVED,
        "needs one time for each rung": not len(episode.held) == len(episode.calm) == len(rungs),
        "it fires without an active rung": firing and not episode.up,
        "it has an active rung but does not fire": bool(episode.up) and not firing,
        "firing without a time": firing != (episode.fired is not None)
        or firing != (alert.fired is not None),
        "its level is not that of an active rung": firing
        and alert.level not in [r.level for n, r in enumerate(rungs) if episode.up >> n & 1],
        "a notice was sent for information": told is not None
        and told <= Level.INFO.rank
        and not BY_NAME[alert.rule].to_owner,
        "notified but not counted": (told is not None) != (alert.notified > 0),
        "covered but not acknowledged": (episode.covered is None) != (alert.acknowledged is None),
        "without data but not marked so": (episode.dark is None) != (alert.no_data_since is None),
    }
    return [wrong for wrong, is_so in checks.items() if is_so]


def check_outbox(box: Outbox) -> None:
    """Check the invariants of an outbox."""
    keys = [delivery.key for delivery in box.deliveries]
    assert len(keys) == len(set(keys)), "duplicate delivery"
    assert all(box.count(e.notifier) <= MOST_DELIVERIES for e in box.deliveries)
    assert box.dropped >= 0
    assert max(len(box.informed), len(box.accepted)) <= MOST_OPEN


def check_failures(failures: Failures) -> None:
    """Checks that failure fields are all set or all unset."""
    if failures.count:
        assert failures.trouble is not None
        assert failures.since is not None
    else:
        assert failures == Failures()


def check_backlog(backlog: Backlog) -> None:
    """Checks the invariants of a backlog."""
    assert len(backlog.ticks) <= MOST_TICKS
    assert len(backlog.uses) <= MOST_USES
    assert min(backlog.dropped, backlog.written) >= 0


class PlanError(AssertionError):
    """A plan that breaks a rule."""


def check_plan(
    found: DispatchPlan,
    jobs: Sequence[QueuedJob],
    capacities: Sequence[DeviceCapacity],
    at: float,
    promised: AbstractSet[str] = frozenset(),
) -> None:
    """Raise PlanError if a plan gives a device twice, gives what is not free, or delays a job."""
    by_number = {job.number: (place, job) for place, job in enumerate(jobs)}
    spaces = {capacity.uuid: capacity for capacity in capacities}
    given: set[str] = set()
    for start in found.starts:
        place, job = by_number[start.number]
        _check_start(start, job, spaces, given, promised)
        given |= set(start.uuids)
        _check_order(start, job, jobs[:place], found, capacities, at)


def _check_start(
    start: PlannedStart,
    job: QueuedJob,
    spaces: Mapping[str, DeviceCapacity],
    given: AbstractSet[str],
    promised: AbstractSet[str],
) -> None:
    if not job.need.least <= len(start.uuids) <= job.need.most:
        raise PlanError(f"job {start.number} gets {len(start.uuids)} devices")
    for uuid in start.uuids:
        if uuid in given or uuid in promised or start.uuids.count(uuid) > 1:
            raise PlanError(f"{uuid} is given twice, the second time to job {start.number}")
        if uuid not in job.need.eligible or obstacle(spaces[uuid], job.need) is not None:
            raise PlanError(f"{uuid} is not available to job {start.number}")


def _check_order(
    start: PlannedStart,
    job: QueuedJob,
    ahead: Sequence[QueuedJob],
    found: DispatchPlan,
    capacities: Sequence[DeviceCapacity],
    at: float,
) -> None:
    """Checks that no waiting job ahead could use the devices before this job ends."""
    started = {one.number for one in found.starts}
    waiting: list[BlockedJob] = []
    for other in ahead:
        if other.number not in started:
            waiting.append(blocked_job(other, waiting, capacities, at))
    for one in barring(waiting, job.lasts_seconds, at):
        if one.hoped & set(start.uuids):
            raise PlanError(f"job {start.number} delays job {one.number}")


def check_map(plan: MapPlan) -> None:
    """Checks that every item is in exactly one place."""
    queued = [*plan._next, *(unit for _, _, unit in plan._later)]
    indices = [item.index for unit in queued for item in unit.items]
    assert len(indices) == len(set(indices))
    assert plan.done + plan.failed + plan.running + len(indices) == len(plan.items)
    assert min(plan.done, plan.failed, plan.running) >= 0
