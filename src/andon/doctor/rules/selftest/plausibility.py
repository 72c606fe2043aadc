"""Checks sampling: the devices respond, time advances, values are plausible."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from andon.doctor.rules.findings import CheckResult, failure, ok, unknown, warning
from andon.doctor.rules.selftest.readings import judge_readings
from andon.doctor.rules.selftest.trials import (
    DOCTOR,
    REPORT,
    SHOWN,
    History,
    Sampling,
    SelftestTrial,
    histories_of,
)
from andon.model.device import Snapshot, State
from andon.units import counted

EXPENSIVE_SHARE = 0.1  # of a core, for all of sampling
LATE_SECONDS = 5.0


def judge(snapshots: Sequence[Snapshot], sampling: Sampling) -> list[CheckResult]:
    """Returns all checks, in the order of their areas."""
    histories = histories_of(snapshots)
    if not any(history.samples for history in histories):
        asleep = any(s.state is State.ASLEEP for h in histories for s in h.statuses)
        return [_nothing(snapshots, asleep)]
    return [
        *_answers(histories, snapshots),
        _identity(snapshots),
        *judge_readings(histories),
        *_time(histories, snapshots),
        _snapshots(sampling),
        _cost(sampling),
    ]


# Devices.


def _nothing(snapshots: Sequence[Snapshot], asleep: bool) -> CheckResult:
    if asleep:
        return unknown(SelftestTrial.ANSWERS, "every device is asleep and was not woken")
    faults = snapshots[-1].faults if snapshots else ()
    why = f": {faults[0].reason}" if faults else ""
    return failure(SelftestTrial.NO_DEVICE, f"no device could be read{why}", DOCTOR)


def _answers(histories: list[History], snapshots: Sequence[Snapshot]) -> Iterator[CheckResult]:
    silent = 0
    for history in histories:
        bad = [s for s in history.statuses if s.state in (State.STALE, State.LOST)]
        if bad:
            silent += 1
            state = bad[-1].state.text
            message = f"{history.label} was {state} in {len(bad)} of {len(snapshots)} samples"
            yield failure(
                SelftestTrial.ANSWERS, f"{message}: {bad[-1].reason or ''}".rstrip(": "), DOCTOR
            )
    prefix = "SIMULATED: " if any(snapshot.simulated for snapshot in snapshots) else ""
    if not silent:
        samples = counted(len(snapshots), "sample")
        message = f"{prefix}{counted(len(histories), 'device')} responded in {samples}"
        yield ok(SelftestTrial.ANSWERS, message, devices=len(histories), snapshots=len(snapshots))


def _identity(snapshots: Sequence[Snapshot]) -> CheckResult:
    seen = [[status.device.uuid for status in snapshot.devices] for snapshot in snapshots]
    if any(len(set(uuids)) < len(uuids) for uuids in seen):
        return failure(SelftestTrial.IDENTITY, "two devices have the same UUID", REPORT)
    if any(set(uuids) != set(seen[0]) for uuids in seen):
        sizes = sorted({len(uuids) for uuids in seen})
        message = f"the devices changed during the test (from {sizes[0]} to {sizes[-1]})"
        return failure(SelftestTrial.IDENTITY, message, DOCTOR)
    return ok(SelftestTrial.IDENTITY, "every device kept its UUID", devices=len(seen[0]))


# The sampling itself.


def _time(histories: list[History], snapshots: Sequence[Snapshot]) -> Iterator[CheckResult]:
    spans = [later.at - earlier.at for earlier, later in pairwise(snapshots)]
    still = [h.label for h in histories if not _rises([s.at for s in h.samples])]
    if not _rises([snapshot.at for snapshot in snapshots]):
        yield failure(SelftestTrial.TIME, "the clock stopped or went backwards", "timedatectl")
    elif still:
        message = f"{', '.join(still[:SHOWN])}: the time of the samples does not advance"
        yield failure(SelftestTrial.TIME, message, REPORT)
    elif (late := _latest(snapshots)) > LATE_SECONDS:
        yield failure(
            SelftestTrial.TIME, f"a sample is {late:.1f} s off its snapshot", "timedatectl"
        )
    else:
        longest = max(spans, default=0.0)
        yield ok(
            SelftestTrial.TIME,
            f"time advances, at most {longest:.2f} s between samples",
            longest_seconds=longest,
        )


def _rises(times: Sequence[float]) -> bool:
    return all(later > earlier for earlier, later in pairwise(times))


def _latest(snapshots: Sequence[Snapshot]) -> float:
    return max(
        (
            abs(status.sample.at - snapshot.at)
            for snapshot in snapshots
            for status in snapshot.devices
            if status.answered and status.sample is not None
        ),
        default=0.0,
    )


def _snapshots(sampling: Sampling) -> CheckResult:
    lost = sampling.missed + sampling.dropped
    message = f"{sampling.snapshots} samples, one every {sampling.interval_seconds:g} s"
    if not lost:
        return ok(
            SelftestTrial.SNAPSHOTS,
            f"{message}, none missed",
            snapshots=sampling.snapshots,
            missed=0,
        )
    return failure(SelftestTrial.SNAPSHOTS, f"{message}, {lost} missed", "andon cost", missed=lost)


def _cost(sampling: Sampling) -> CheckResult:
    taken = max(1, sampling.snapshots)
    own, reader = sampling.sampler_cpu_seconds / taken, sampling.reader_cpu_seconds / taken
    share = (own + reader) / sampling.interval_seconds
    message = (
        f"a sample costs {1e3 * own:.2f} ms of CPU here and {1e3 * reader:.2f} ms in the reader"
    )
    place = {"sampler_cpu_seconds": own, "reader_cpu_seconds": reader, "core_percent": 100 * share}
    if share > EXPENSIVE_SHARE:
        return warning(
            SelftestTrial.COST, f"{message}: {100 * share:.1f} % of a core", "andon cost", **place
        )
    return ok(SelftestTrial.COST, f"{message}: {100 * share:.2f} % of a core", **place)
