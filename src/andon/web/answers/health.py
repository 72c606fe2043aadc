"""`/api/health`: the actual state of each part of the server."""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from andon.explain.conditions.node.drivers import is_absent
from andon.model import wire
from andon.model.device import Fault, FaultCode, Snapshot, State
from andon.model.shapes import to_json
from andon.node.watched.live import WatchedLive
from andon.sampling.sampler import Costs, Sampler
from andon.settings.resolution import Settings
from andon.units import counted
from andon.version import __version__
from andon.web.answers.payloads import why_not
from andon.web.answers.schemas import BackendHealth, Health, ReaderHealth, SamplerHealth

LATE_TICKS = 3.0
LATE_SECONDS = 3.0  # a short delay is not a fault


class HealthPart(Protocol):
    """A part that reports its health: a table with at least `state` and `reason`."""

    def health(self) -> wire.Json: ...


def health(
    live: WatchedLive, sampler: Sampler, settings: Settings, parts: Mapping[str, HealthPart]
) -> wire.Json:
    """The whole server; `status` is the worst state of its parts: ok, degraded or failing."""
    snapshot, sampling = live.last, _sampler(live, settings)
    states = {name: part.health() for name, part in parts.items()}
    backends = [] if snapshot is None else _backends(snapshot)
    reason, hint = (None, None) if snapshot is None or snapshot.devices else why_not(snapshot)
    found = Health(
        status=_status(sampling, backends, states),
        version=__version__,
        node=None if snapshot is None else snapshot.node,
        at=time.time(),
        uptime_seconds=round(time.monotonic() - live.began, 3),
        simulated=None if snapshot is None else snapshot.simulated,
        reason=reason,
        hint=hint,
        sampler=sampling,
        readers=[_reader(pid) for pid in sampler.reader_pids()],
        backends=backends,
    )
    return {**to_json(found), **states}


def _sampler(live: WatchedLive, settings: Settings) -> SamplerHealth:
    age, costs = live.age_seconds(), live.costs() or Costs()
    state, reason = _sampling_state(live, settings, age)
    return SamplerHealth(
        state=state,
        reason=reason,
        age_seconds=None if age is None else round(age, 3),
        interval_seconds=live.interval_seconds,
        snapshots=costs.snapshots,
        missed=costs.missed,
        sampler_cpu_seconds=round(costs.sampler_cpu_seconds, 6),
        reader_cpu_seconds=round(costs.reader_cpu_seconds, 6),
    )


def _sampling_state(
    live: WatchedLive, settings: Settings, age: float | None
) -> tuple[str, str | None]:
    if not live.runs:
        return "stopped", "the sampling loop has ended"
    if age is None:
        return "starting", "waiting for the first reading"
    bound = settings.deadline_seconds + max(LATE_SECONDS, LATE_TICKS * live.interval_seconds)
    if age > bound:
        return "late", f"the last reading was {age:.1f} s ago"
    return "ok", None


def _reader(pid: int) -> ReaderHealth:
    """Whether a reader's process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ReaderHealth(pid, "ended")
    except PermissionError:
        pass
    return ReaderHealth(pid, "running")


def _backends(snapshot: Snapshot) -> list[BackendHealth]:
    """One row per vendor: the states of its devices, and its fault if there is one."""
    faults = {fault.source: fault for fault in snapshot.faults}
    names = sorted({s.device.vendor for s in snapshot.devices} | set(faults))
    return [_backend(name, snapshot, faults) for name in names]


def _backend(name: str, snapshot: Snapshot, faults: Mapping[str, Fault]) -> BackendHealth:
    states = [s.state for s in snapshot.devices if s.device.vendor == name]
    fault = faults.get(name)
    silent = [state for state in states if state in (State.STALE, State.LOST)]
    return BackendHealth(
        name=name,
        state=_backend_state(fault, snapshot, bool(silent)),
        reason=fault.reason if fault is not None else _silent(silent) if silent else None,
        hint=None if fault is None else fault.hint,
        devices={str(one): states.count(one) for one in State if one in states},
    )


def _backend_state(fault: Fault | None, snapshot: Snapshot, silent: bool) -> str:
    """The state as alerts judge it: degraded if read through a fallback, absent without cards."""
    if fault is None:
        return "degraded" if silent else "ok"
    if is_absent(fault, snapshot):
        return "absent"
    return "degraded" if fault.code == FaultCode.OTHER_BACKEND else "failing"


def _silent(silent: Sequence[State]) -> str:
    does = "does" if len(silent) == 1 else "do"
    return f"{counted(len(silent), 'device')} {does} not respond"


def _status(
    sampler: SamplerHealth, backends: list[BackendHealth], others: Mapping[str, wire.Json]
) -> str:
    if sampler.state in ("late", "stopped"):
        return "failing"
    parts = [one.state for one in backends] + [one["state"] for one in others.values()]
    degraded = any(state in ("failing", "degraded") for state in parts)
    return "degraded" if degraded or sampler.state == "starting" else "ok"
