"""Payloads of routes and events, built from snapshots; pure, so that golden files can test them."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.departures import NOTHING_KNOWN, EndedProcesses
from andon.explain.why import explain, explain_absence
from andon.explain.wire import WHY, Explained, ExplainedDevice, explained
from andon.leases.rules.eligibility import score
from andon.model import wire
from andon.model.device import DeviceStatus, Process, Snapshot, State
from andon.model.lamp import DeviceLamp
from andon.model.lease_list import LeaseRow
from andon.model.naming import device_labels, device_named, titles, unread_text
from andon.model.shapes import to_json
from andon.settings.resolution import Settings
from andon.units import MIB, iso
from andon.web.answers.schemas import About

HIGH_USAGE_PERCENT = 50
NO_DEVICE = "no GPU found on this node"
NO_DEVICE_HINT = "andon doctor finds out why; to try it: andon serve --simulate 4"


def about(snapshot: Snapshot) -> wire.Json:
    """Returns the start of every payload; for a node without a device, with the reason."""
    answering = any(s.state in (State.OK, State.ASLEEP) for s in snapshot.devices)
    reason, hint = (None, None) if answering else why_not(snapshot)
    found = About(
        node=snapshot.node,
        at=snapshot.at,
        timestamp=iso(snapshot.at),
        simulated=snapshot.simulated,
        available=answering,
        reason=reason,
        hint=hint,
    )
    return dict(to_json(found))


def why_not(snapshot: Snapshot) -> tuple[str, str]:
    """Returns why no device responds here, and what to do."""
    if snapshot.faults:
        first = snapshot.faults[0]
        return f"{first.source}: {first.reason}", first.hint
    silent = next((s for s in snapshot.devices if s.reason), None)
    if silent is not None:
        name = titles(snapshot.devices)[silent.device.uuid]
        return f"{name}: {silent.reason}", silent.hint or ""
    return NO_DEVICE, NO_DEVICE_HINT


# The stable routes and events (DESIGN section 9).


def gpu_summary(snapshot: Snapshot, settings: Settings) -> wire.Json:
    """`/api/gpu/summary`, `gpu_status` and `gpu_status_update`: MiB, one entry per board."""
    boards = [s for s in snapshot.devices if s.device.parent is None]
    answered = [s for s in boards if s.answered]
    pids = {p.pid for s in snapshot.devices for p in s.processes}
    return {
        **about(snapshot),
        "gpu_count": len(boards),
        "responding_count": len(answered),
        "utilization_percent": _mean([_read(s, "utilization_percent") for s in answered]),
        "memory_used_mb": _mib(_sum([_read(s, "memory_used_bytes") for s in answered])),
        "memory_total_mb": _mib(_sum([s.device.memory_total_bytes for s in boards])),
        "power_watts": _sum([_read(s, "power_watts") for s in answered]),
        "temperature_max_celsius": _most([_read(s, "temperature_celsius") for s in answered]),
        "process_count": len(pids) if answered else None,
        "gpus": [_gpu(status, settings) for status in boards],
    }


def _gpu(status: DeviceStatus, settings: Settings) -> wire.Json:
    """Returns one GPU; all values of a device that did not respond are unknown, because an old
    sample does not count."""
    free, total = _read(status, "memory_free_bytes"), status.device.memory_total_bytes
    utilization = _read(status, "utilization_percent")
    weights = settings.score_memory_weight, settings.score_utilization_weight
    return {
        "index": status.device.index,
        "uuid": status.device.uuid,
        "name": status.device.name,
        "state": str(status.state),
        "reason": status.reason,
        "utilization_percent": utilization,
        "memory_used_mb": _mib(_read(status, "memory_used_bytes")),
        "memory_free_mb": _mib(free),
        "memory_total_mb": _mib(total),
        "memory_percent": _one_digit(status.memory_percent if status.answered else None),
        "temperature_c": _read(status, "temperature_celsius"),
        "fan_percent": _read(status, "fan_percent"),
        "power_draw_w": _read(status, "power_watts"),
        "score": score(
            None if free is None else int(free),
            total,
            None if utilization is None else int(utilization),
            *weights,
        ),
        "processes": [_use(p) for p in status.processes] if status.answered else None,
    }


def _use(process: Process) -> wire.Json:
    """Returns a process without its command line, which not every caller may see."""
    return {
        "pid": process.pid,
        "name": process.name,
        "user": process.user,
        "memory_used_mb": _mib(process.memory_bytes),
    }


def gpu_metrics(snapshot: Snapshot) -> wire.Json:
    """Every device as in `andon.snapshot/1`, with its processes."""
    return {**about(snapshot), "gpus": wire.statuses_to_json(snapshot)}


def gpu_processes(snapshot: Snapshot) -> wire.Json:
    """Every process with its device's index and uuid."""
    found = wire.processes_to_json(snapshot)
    hidden = next((s.missing["command"] for s in snapshot.devices if "command" in s.missing), None)
    silent = unread_text(snapshot.devices, "its processes are", "their processes are")
    notes = (silent and f"{silent} not listed", hidden and f"command lines are {hidden}")
    note = "; ".join(one for one in notes if one) or None
    return {**about(snapshot), "processes": found, "note": note}


def high_usage(
    snapshot: Snapshot, uuids: Collection[str], threshold: float = HIGH_USAGE_PERCENT
) -> wire.Json:
    """`high_gpu_usage_alert`: these devices, with the threshold they are above."""
    gpus = [
        {
            "index": s.device.index,
            "uuid": s.device.uuid,
            "name": s.device.name,
            "utilization_percent": _read(s, "utilization_percent"),
        }
        for s in snapshot.devices
        if s.device.uuid in uuids
    ]
    called = titles(snapshot.devices)
    names = ", ".join(f"{called[str(g['uuid'])]} at {g['utilization_percent']} %" for g in gpus)
    return {
        **about(snapshot),
        "threshold_percent": threshold,
        "gpus": gpus,
        "message": f"utilisation above {threshold:g} %: {names}",
    }


def busy_uuids(snapshot: Snapshot, rulebook: Rulebook | None = None) -> frozenset[str]:
    """The devices that are above their threshold of the rule `high_usage` now."""
    known = rulebook or Rulebook()
    return frozenset(s.device.uuid for s in snapshot.devices if _is_busy(s, known))


def _is_busy(status: DeviceStatus, rulebook: Rulebook) -> bool:
    share, figures = _read(status, "utilization_percent"), rulebook.for_device(status.device)
    if share is None or "high_usage" in figures.off:
        return False
    return share > figures.high_usage_percent


# The others.


def grant(row: LeaseRow, environment: Mapping[str, str]) -> wire.Json:
    """A lease as returned to its requester."""
    return {**to_json(row), "environment": dict(environment)}


def system(snapshot: Snapshot) -> wire.Json:
    whole = wire.snapshot_to_json(snapshot)
    return {**about(snapshot), **{name: whole[name] for name in ("boot", "versions", "host")}}


def devices(snapshot: Snapshot) -> wire.Json:
    return {**about(snapshot), "items": wire.statuses_to_json(snapshot)}


def device(snapshot: Snapshot, name: str) -> wire.Json:
    found = device_named(name, snapshot.devices)
    label = device_labels(snapshot.devices)[found.device.uuid]
    return {**about(snapshot), "device": wire.status_to_json(found, label)}


def why(
    snapshots: Sequence[Snapshot],
    name: str,
    rulebook: Rulebook | None,
    lamps: Iterable[DeviceLamp],
    departures: EndedProcesses = NOTHING_KNOWN,
) -> wire.Json:
    """`andon.why/1` of one device, from the last minutes."""
    latest = snapshots[-1]
    status = device_named(name, latest.devices)
    lit = next(lamp for lamp in lamps if lamp.uuid == status.device.uuid)
    reasons = explain(snapshots, status.device.uuid, rulebook, departures, lit)
    found = Explained(
        round(latest.at - snapshots[0].at, 3),
        (ExplainedDevice.of(status.device, reasons, lit),),
        () if latest.devices else explained(explain_absence(snapshots)),
    )
    return {"schema": WHY, **about(latest), **to_json(found)}


def processes(snapshot: Snapshot) -> wire.Json:
    found = gpu_processes(snapshot)
    return {**about(snapshot), "items": found["processes"], "note": found["note"]}


def _read(status: DeviceStatus, name: str) -> float | None:
    found: float | None = getattr(status.sample, name) if status.answered else None
    return found


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _sum(values: Sequence[float | None]) -> float | None:
    known = _known(values)
    return round(sum(known), 3) if known else None


def _one_digit(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _mean(values: Sequence[float | None]) -> float | None:
    known = _known(values)
    return round(sum(known) / len(known), 1) if known else None


def _most(values: Sequence[float | None]) -> float | None:
    return max(_known(values), default=None)


def _mib(size: float | None) -> int | None:
    return None if size is None else int(size // MIB)
