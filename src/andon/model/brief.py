"""What large values are at a prompt: one line that says what they are about, not all they hold."""

from collections import Counter

from andon.model.device import Device, DeviceStatus, Host, Sample, Snapshot
from andon.units import human_bytes, iso_utc

Value = Snapshot | DeviceStatus | Device | Sample | Host


def brief(value: Value) -> str:
    """`<Snapshot of node17 at 2026-11-15T03:00:00.250Z: 7 ok, 1 lost>`."""
    match value:
        case Snapshot():
            words = _snapshot(value)
        case DeviceStatus():
            words = _status(value)
        case Device():
            words = f"{value.index}: {value.name}, {value.uuid}"
        case Sample():
            words = f"at {iso_utc(value.at)}: {_readings(value) or 'no readings'}"
        case Host():
            words = _host(value)
    return f"<{type(value).__name__} {words}>"


def _snapshot(value: Snapshot) -> str:
    states = Counter(str(status.state) for status in value.devices)
    devices = ", ".join(f"{count} {state}" for state, count in states.items()) or "no device"
    faults = f", {len(value.faults)} faults" if value.faults else ""
    mark = " SIMULATED" if value.simulated else ""
    return f"of {value.node} at {iso_utc(value.at)}: {devices}{faults}{mark}"


def _status(value: DeviceStatus) -> str:
    device = f"{value.device.index}: {value.device.name}, {value.state}"
    if value.sample is None or not value.answered:
        return f"{device} ({value.reason})" if value.reason else device
    readings, count = _readings(value.sample), len(value.processes)
    processes = f"{count} process{'es' * (count != 1)}"
    return ", ".join(filter(None, (device, readings, processes)))


def _readings(sample: Sample) -> str:
    """The four that everyone asks for, where they are known."""
    shown = (
        (sample.utilization_percent, "{:.0f} %"),
        (sample.temperature_celsius, "{:.0f} °C"),
        (sample.power_watts, "{:.0f} W"),
    )
    found = [form.format(value) for value, form in shown if value is not None]
    if sample.memory_used_bytes is not None:
        found.insert(1, f"{human_bytes(sample.memory_used_bytes)} used")
    return ", ".join(found)


def _host(value: Host) -> str:
    cpu = None if value.cpu_percent is None else f"CPU {value.cpu_percent:.0f} %"
    used = value.memory_used_bytes
    memory = None if used is None else f"{human_bytes(used)} of memory used"
    return ", ".join(filter(None, (cpu, memory))) or "of unknown values"
