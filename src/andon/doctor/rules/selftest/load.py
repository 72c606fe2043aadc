"""Checks that readings follow a load of our own: what must rise has risen."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from andon.doctor.rules.findings import CheckResult, failure, ok, unknown
from andon.doctor.rules.selftest.trials import DOCTOR, SelftestTrial
from andon.model.device import DeviceStatus, Sample, Snapshot, State, reading_label
from andon.model.naming import titles
from andon.units import GIB

UTILIZATION_RISE = 20  # percentage points, of a load that leaves no pause
POWER_RISE_WATTS = 5.0
SM_ACTIVE_RISE = 5.0
FREE_BYTES = 2 * GIB  # a load of half a GiB plus what the driver uses


class Load(Struct, frozen=True):
    """The load that ran: its device and process; or the reason why none did."""

    uuid: str = ""
    pid: int = 0
    own_pids: bool = False  # in a separate pid namespace, where the driver reports other pids
    reason: str = ""


def choose(snapshot: Snapshot, free: AbstractSet[str]) -> tuple[DeviceStatus | None, str]:
    """Returns a device that a lease would get; the second value is the reason if there is none.

    `free` are the UUIDs of the available devices with `FREE_BYTES`, at most
    `SCHEDULABLE_IDLE_PERCENT` busy.
    """
    usable = [
        status
        for status in snapshot.devices
        if status.device.vendor == "nvidia" and status.visible and status.state is State.OK
    ]
    if not usable:
        return None, "no NVIDIA device that this process may use responds"
    found = next((status for status in usable if status.device.uuid in free), None)
    return (found, "") if found else (None, "every device is in use, and no job is disturbed")


def judge_load(
    before: Sequence[Snapshot], during: Sequence[Snapshot], load: Load
) -> Iterator[CheckResult]:
    if load.reason:
        yield unknown(SelftestTrial.LOAD, f"no load was run: {load.reason}")
        return
    calm, busy = _samples(before, load.uuid), _samples(during, load.uuid)
    name = _name(during, load.uuid)
    yield ok(SelftestTrial.LOAD, f"kept {name} busy in process {load.pid}", pid=load.pid)
    for trial, field, unit, least in _RISES:
        yield _rise(trial, field, unit, least, calm, busy)
    yield _process(during, load)


_RISES = (
    (SelftestTrial.LOAD_UTILIZATION, "utilization_percent", "%", UTILIZATION_RISE),
    (SelftestTrial.LOAD_POWER, "power_watts", "W", POWER_RISE_WATTS),
    (SelftestTrial.LOAD_SM_ACTIVE, "sm_active_percent", "%", SM_ACTIVE_RISE),
)


def _rise(
    trial: SelftestTrial,
    field: str,
    unit: str,
    least: float,
    calm: list[Sample],
    busy: list[Sample],
) -> CheckResult:
    shown = reading_label(field)
    low, high = _most(calm, field), _most(busy, field)
    if low is None or high is None:
        return unknown(trial, f"{shown}: not reported by the device")
    message = f"{shown} rose from {low:.0f} to {high:.0f} {unit}"
    if high - low >= least:
        return ok(trial, message, before=low, during=high)
    return failure(
        trial, message.replace("rose", "only rose"), "andon why", before=low, during=high
    )


def _process(during: Sequence[Snapshot], load: Load) -> CheckResult:
    pids = {process.pid for status in _statuses(during, load.uuid) for process in status.processes}
    if load.pid in pids:
        return ok(
            SelftestTrial.LOAD_PROCESS, f"process {load.pid} was seen on the device", pid=load.pid
        )
    if load.own_pids:
        message = "the driver reports the host's pids, and this pid namespace has its own"
        return unknown(SelftestTrial.LOAD_PROCESS, message)
    return failure(
        SelftestTrial.LOAD_PROCESS, f"process {load.pid} was not seen on the device", DOCTOR
    )


def _most(samples: list[Sample], field: str) -> float | None:
    return max((value for s in samples if (value := getattr(s, field)) is not None), default=None)


def _statuses(snapshots: Sequence[Snapshot], uuid: str) -> list[DeviceStatus]:
    return [s for snapshot in snapshots for s in snapshot.devices if s.device.uuid == uuid]


def _samples(snapshots: Sequence[Snapshot], uuid: str) -> list[Sample]:
    return [s.sample for s in _statuses(snapshots, uuid) if s.answered and s.sample is not None]


def _name(snapshots: Sequence[Snapshot], uuid: str) -> str:
    found = [snapshot for snapshot in snapshots if _statuses([snapshot], uuid)]
    return titles(found[-1].devices)[uuid] if found else uuid
