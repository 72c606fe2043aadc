"""The devices of a snapshot, in display order and with display names."""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from andon.explain.conditions.rulebook import DEFAULTS, Rulebook
from andon.model.device import DeviceStatus, Snapshot
from andon.model.lamp import DeviceLamp
from andon.model.naming import device_labels, short_model, title, with_labels
from andon.model.thresholds import Thresholds
from andon.model.vendors import vendor_of
from andon.model.verdict import DeviceVerdict

_PROFILE = r"\bMIG\s+(?P<profile>\d+c?\.?\d*g\.\S+)"


CUDA = "cuda"
NO_VERDICTS: Mapping[str, DeviceVerdict] = {}


def runtime_of(vendor: str) -> str:
    """The runtime in which a program counts this vendor's devices: `hip` for AMD."""
    return vendor_of(vendor).runtime


class NamedDevice(Struct, frozen=True):
    """One device with its display name."""

    status: DeviceStatus
    label: str  # "3", or "3:0" for the first instance of board 3
    instance: bool = False
    divided: bool = False  # a board whose memory is used through its instances
    figures: Thresholds = DEFAULTS  # the thresholds in force for it
    lamp: DeviceLamp | None = None  # None where no lamp is drawn
    verdict: DeviceVerdict | None = None  # None where it is not known whether it is available

    @property
    def title(self) -> str:
        """Its name in a sentence: `GPU 5`."""
        return title(self.label)


def entries(snapshot: Snapshot) -> list[NamedDevice]:
    """Boards in the order of the snapshot, each followed by its instances."""
    known = {status.device.uuid for status in snapshot.devices}
    below: dict[str | None, list[DeviceStatus]] = {}
    for status in snapshot.devices:
        below.setdefault(status.device.parent, []).append(status)
    names = device_labels(snapshot.devices)
    out: list[NamedDevice] = []
    for status in snapshot.devices:
        if status.device.parent not in known:
            parts = below.get(status.device.uuid, [])
            out.append(_board(status, parts, names[status.device.uuid]))
            out += [NamedDevice(part, names[part.device.uuid], instance=True) for part in parts]
    return out


def lit_entries(
    snapshot: Snapshot,
    rulebook: Rulebook | None = None,
    lit: Sequence[DeviceLamp] | None = None,
    verdicts: Mapping[str, DeviceVerdict] = NO_VERDICTS,
) -> list[NamedDevice]:
    """The devices with their thresholds and lamps: the given lamps, or those of this snapshot."""
    rulebook = rulebook or Rulebook()
    if lit is None:
        from andon.alerts.rules.lamps_from_sample import lamps_from_sample  # if no server sent them

        lit = lamps_from_sample(snapshot, rulebook)
    lamps = {lamp.uuid: lamp for lamp in lit}
    return [
        replace(
            entry,
            figures=rulebook.for_device(entry.status.device),
            lamp=lamps.get(entry.status.device.uuid),
            verdict=verdicts.get(entry.status.device.uuid),
        )
        for entry in entries(snapshot)
    ]


def _board(status: DeviceStatus, parts: list[DeviceStatus], label: str) -> NamedDevice:
    """Returns a board without the processes of its instances, so that none is counted twice."""
    below = {process.pid for part in parts for process in part.processes}
    own = tuple(process for process in status.processes if process.pid not in below)
    shown = replace(status, processes=own) if below else status
    return NamedDevice(shown, label, divided=bool(parts))


def is_masked(snapshot: Snapshot) -> bool:
    """Whether this process sees other devices, or other indices, than the node has."""
    return any(
        not status.visible or status.cuda_index not in (None, status.device.index)
        for status in snapshot.devices
    )


def only_visible(snapshot: Snapshot) -> Snapshot:
    """The devices this process may use; the board of a visible instance stays, as its heading."""
    parents = {s.device.parent for s in snapshot.devices if s.visible}
    listed = with_labels(snapshot.devices)
    visible = tuple(s for s in listed if s.visible or s.device.uuid in parents)
    return replace(snapshot, devices=visible)


def unreal(snapshot: Snapshot) -> str:
    """The mark that every output must show for simulated or replayed devices; else empty."""
    if "replay" in snapshot.versions:
        return "REPLAYED"
    simulated = snapshot.simulated or any(s.device.vendor == "sim" for s in snapshot.devices)
    return "SIMULATED" if simulated else ""


def model_name(entry: NamedDevice, brief: bool) -> str:
    """The model without its maker; `brief` leaves out the memory size, shown beside it."""
    name = entry.status.device.name
    if entry.instance and (profile := re.search(_PROFILE, name)):
        return f"└ {profile['profile']}"
    short = short_model(name, brief)
    return f"└ {short}" if entry.instance else short
