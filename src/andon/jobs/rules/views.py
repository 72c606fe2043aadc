"""A job as every view shows it: its state with its reason, its position, and its devices."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from andon.jobs.rules.order import OrderKey
from andon.jobs.rules.states import JobStatus, is_running, left_devices
from andon.model.job.desk import JobReason
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import WAITS, AttemptFacts, Holdup, JobFacts, JobState, JobView
from andon.model.job.spec import MOST_JOBS, JobSpec
from andon.model.redaction import is_secret_name, redact
from andon.units import valid_text

if TYPE_CHECKING:  # most lists have no cluster
    from andon.model.job.cluster import ClusterState

JUST_QUEUED = "just queued"
MOST_REASONS = 50
"""Jobs whose reason a dispatcher determines; for those behind them, only how many are ahead."""


def views(
    jobs: Mapping[int, JobFacts],
    known: Mapping[int, JobStatus],
    places: Mapping[int, int],
    holdups: Mapping[int, Holdup],
    only: Iterable[int] | None = None,
) -> list[JobView]:
    """Returns all jobs by number, or `only` these, in the given order."""
    wanted = jobs if only is None else [n for n in dict.fromkeys(only) if n in jobs]
    return [view_of(jobs[n], known[n], places.get(n), holdups.get(n)) for n in wanted]


def positions(
    keys: Mapping[int, OrderKey],
    known: Mapping[int, JobStatus],
    holdups: Mapping[int, Holdup],
) -> dict[int, int]:
    """Returns each waiting job's place in the machine's queue: its ticket's, or without one as far
    behind the user's last ticket as it is in the user's own order."""
    waiting = [number for number, one in known.items() if one.is_ready]
    found, last = dict[int, int](), 0
    for number in sorted(waiting, key=keys.__getitem__):
        ticket = holdups[number].place if number in holdups else None
        last = found[number] = ticket or last + 1
    return found


def view_of(
    facts: JobFacts,
    status: JobStatus,
    position: int | None = None,
    holdup: Holdup | None = None,
    environment: Mapping[str, str] | None = None,
) -> JobView:
    """Returns a job's view; of its `environment` only the names that its owner chose."""
    spec, state = facts.spec, status.state
    attempt = _shown_attempt(facts, state)
    claim = None if attempt is None else attempt.claim
    end = None if attempt is None else attempt.end
    waits = state is JobState.WAITING
    seen = holdup if waits and status.reason is None else None
    reason = status.reason
    if waits and reason is None:
        reason = _unexamined(position) if seen is None else seen.reason + _not_on(facts.last)
    return JobView(
        number=spec.number,
        label=spec.label,
        name=spec.name,
        state=state,
        command=redact(spec.argv),
        folder=valid_text(spec.folder),
        user=spec.user,
        submitted_at=spec.submitted_at,
        gpus=count_text(spec.request),
        reason=reason,
        position=position,
        attempt=status.attempt,
        attempts=len(facts.attempts),
        memory_bytes=spec.request.memory_bytes,
        simulated=spec.simulate is not None,
        priority=spec.priority,
        for_seconds=spec.for_seconds,
        begin_at=spec.begin_at,
        after=spec.after,
        after_any=spec.after_any,
        array=None if spec.array is None else spec.array.id,
        array_index=None if spec.array is None else spec.array.index,
        expected_start=None if seen is None else seen.expected_start,
        expected_from=0 if seen is None else seen.expected_from,
        devices=() if claim is None else claim.labels,
        device_uuids=() if claim is None else claim.devices,
        lease=None if claim is None else claim.lease,
        run=None if claim is None else claim.run,
        record=None if claim is None else claim.record,
        pid=claim.group if claim is not None and state is JobState.RUNNING else None,
        started=None if claim is None else (claim.at if end is None else end.started),
        ended=None if end is None else end.ended,
        seconds=None if end is None else end.seconds,
        exit_code=None if end is None else end.exit_code,
        signal=None if end is None else end.signal,
        error=reason if state.is_settled and state is not JobState.SUCCEEDED else None,
        waiting_details=() if seen is None else seen.details,
        environment=shown_environment(facts, environment or {}),
        tags=spec.tags,
        group=spec.group,
        params=shown_params(spec),
    )


def shown_params(spec: JobSpec) -> dict[str, str]:
    return {n: "…" if is_secret_name(n) else str(value) for n, value in spec.params.items()}


def _unexamined(position: int | None) -> str:
    """Returns why a job waits that the dispatcher has not looked at."""
    if position is None or position <= MOST_REASONS:
        return JUST_QUEUED
    return f"{position - 1} jobs are ahead of it"


def _not_on(last: AttemptFacts | None) -> str:
    """Returns which devices a requeued job avoids."""
    if last is None or not left_devices(last):
        return ""
    return f"; not on GPU {', '.join(last.claim.labels)}, which it left"


def _shown_attempt(facts: JobFacts, state: JobState) -> AttemptFacts | None:
    """Returns the latest attempt; None while the job waits for its next one."""
    last = facts.last
    if last is None or (state.is_settled or is_running(last)):
        return last
    return None


def shown_environment(facts: JobFacts, environment: Mapping[str, str]) -> dict[str, str]:
    names = (name for name in facts.spec.shown if name in environment)
    return {name: "…" if is_secret_name(name) else valid_text(environment[name]) for name in names}


def count_text(request: DeviceRequest) -> str:
    """Returns a request's number of devices as typed: `2`, `1..4` or `all`."""
    if request.every:
        return "all"
    if request.least == request.most:
        return str(request.least)
    return f"{request.least}..{request.most}"


class JobListing(Struct, frozen=True):
    """Jobs in display order, and the notes below the list."""

    views: tuple[JobView, ...]
    paused: bool = False
    notes: tuple[str, ...] = ()  # clusters that do not answer, and jobs that are left out
    clusters: "tuple[ClusterState, ...]" = ()

    @classmethod
    def of(
        cls,
        views: Iterable[JobView],
        paused: bool = False,
        notes: Iterable[str] = (),
        clusters: "Iterable[ClusterState]" = (),
    ) -> "JobListing":
        """Returns the list: running jobs, waiting ones by position, held ones, the latest that
        ended."""
        found = tuple(sorted(views, key=_list_order))
        return cls(found, paused, tuple(notes), tuple(clusters))


def listing_of_page(
    views: Iterable[JobView],
    paused: bool,
    clusters: "Sequence[ClusterState]",
    note: str | None,
) -> JobListing:
    """Returns the list of a server's page, with notes about clusters and users that are missing in
    it."""
    notes = [f"{one.name}: {one.trouble}" for one in clusters if one.trouble]
    return JobListing.of(views, paused, notes + ([note] if note else []), clusters)


def reasons_of(view: JobView) -> list[JobReason]:
    """Returns why a job waits or how it ended."""
    lines = (view.reason or view.error, *view.waiting_details)
    return [JobReason(line) for line in lines if line]


def latest_last(
    views: Sequence[JobView], most_ended: int, most_waiting: int | None = None
) -> list[JobView]:
    """Returns the latest jobs that ended, then those that run, then the first of those that wait:
    in a list that scrolls the interesting ones are at the end."""
    ended = [one for one in views if one.state.is_settled]
    running = [one for one in views if one.state is JobState.RUNNING]
    waiting = [one for one in views if one.state in WAITS]
    return [*ended[-most_ended:], *running, *waiting[:most_waiting]]


def _list_order(view: JobView) -> tuple[bool, int, int]:
    if view.state.is_settled:
        return True, 0, -view.number
    waits = 0 if view.state is JobState.RUNNING else (view.position or view.number + MOST_JOBS)
    return False, waits, view.number
