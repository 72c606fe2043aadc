"""The label of each device, and which devices a name means: the same answer in every view.

A device's label is its index, a partition's its board and its place there: `6:0`. A name given
by a person may also be a UUID or its prefix, a PCI address, or `cuda:0`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from andon.errors import Gone, Invalid
from andon.model.device import NO_ANSWER, Device, DeviceStatus, Snapshot, State

SHORTEST_PREFIX = 4  # characters of a UUID
LONGEST_SHOWN = 80  # characters of a wrong name in a message
MOST_LISTED = 32  # candidates or devices in a message
FORMS = "index, 6:0, UUID or its prefix, PCI address, cuda:0"

_PCI = r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])"
_CUDA = r"cuda:([0-9]{1,5})"
_ANY_CASE = re.ASCII | re.IGNORECASE
SIMULATED = "sim"  # a vendor without a runtime, whose devices have no other number than their index
_TITLE = "GPU "
_LONGEST_INDEX = 3  # digits

# What a device is called.


def node_title(name: str) -> str:
    """Returns `node vm`; "this node" if it has no name."""
    return f"node {name}" if name else "this node"


def device_labels(statuses: Iterable[DeviceStatus]) -> dict[str, str]:
    """Returns the label of each device: its index, or `6:0` for a partition of board 6."""
    listed = tuple(statuses)
    boards = {status.device.uuid: status.device.index for status in listed}
    out: dict[str, str] = {}
    numbers: dict[str, int] = {}
    for status in listed:
        device = status.device
        label = str(device.index)
        if device.parent is not None:
            number = numbers.get(device.parent, 0)
            numbers[device.parent] = number + 1
            label = f"{boards.get(device.parent, device.index)}:{number}"
        out[device.uuid] = status.label or label
    return out


def with_labels(statuses: Iterable[DeviceStatus]) -> tuple[DeviceStatus, ...]:
    """Returns the devices with their labels fixed, so that a part of the list keeps them."""
    listed = tuple(statuses)
    names = device_labels(listed)
    return tuple(
        replace(status, label=names[status.device.uuid]) if status.device.parent else status
        for status in listed
    )


def recorded_label(device: Device) -> str:
    """Returns a past device's label: a partition's UUID, because its place is not stored."""
    return str(device.index) if device.parent is None else device.uuid[:12]


def title(label: str, model: str = "") -> str:
    """Returns the device's name in a sentence: `GPU 6:0`, `GPU 6:0 (NVIDIA H100)`."""
    return f"{_TITLE}{label} ({model})" if model else f"{_TITLE}{label}"


def titles(statuses: Iterable[DeviceStatus]) -> dict[str, str]:
    """Returns the titles by uuid: `GPU 6:0`."""
    return {uuid: title(label) for uuid, label in device_labels(statuses).items()}


def label_in(titled: str) -> str:
    """Returns the label in a title; empty for anything else."""
    found = titled.removeprefix(_TITLE)
    return "" if found == titled else found.partition(" ")[0]


# Which device a name means.


def is_cuda_number(name: str) -> bool:
    """Whether a name is like `cuda:0`, which means another device under other masks."""
    return re.fullmatch(_CUDA, name, _ANY_CASE) is not None


def device_named(name: str, statuses: Sequence[DeviceStatus]) -> DeviceStatus:
    """Returns the one device that a name means; Invalid if it matches several, Gone if none."""
    labels = device_labels(statuses)
    found = _outermost([s for s in statuses if _fits(name, s, labels[s.device.uuid])])
    exact = [s for s in found if _is_exact(name, s, labels[s.device.uuid])]
    return _only(name, exact or found, statuses, labels)


def devices_named(name: str, statuses: Sequence[DeviceStatus]) -> set[str]:
    """Returns the UUIDs that a name means: a board includes its partitions."""
    found = device_named(name, statuses).device.uuid
    return {found, *(s.device.uuid for s in statuses if s.device.parent == found)}


def recorded_named(name: str, devices: Sequence[Device]) -> Device:
    """Returns the device that a name means among past ones, of which only static facts are
    known."""
    statuses = [DeviceStatus(d, State.OK, 0.0, label=recorded_label(d)) for d in devices]
    try:
        return device_named(name, statuses).device
    except Gone as error:
        known = ", ".join(_listed([recorded_label(device) for device in devices])) or "none"
        raise Gone(f"{error.reason} in the history", hint=f"recorded: {known}") from error


def may_mean(name: str, uuid: str, label: str, pci: str | None = None) -> bool:
    """Whether a name may refer to this device, as far as can be told without the others.

    A board's name also fits its partitions.
    """
    if name in (label, label.partition(":")[0]) or _starts(name, uuid):
        return True
    return pci is not None and _same_place(name, pci)


def may_mean_lease(name: str, text: str) -> bool:
    """Whether a name is a lease's id or its prefix, in a text that starts with the id. A short
    number is never a prefix: `andon release 3` means GPU 3."""
    if text.partition("-")[0] == name:
        return True
    return text.startswith(name) and not (name.isdecimal() and len(name) <= _LONGEST_INDEX)


def mistake_in(name: str, statuses: Sequence[DeviceStatus]) -> str | None:
    """Returns the error for an ambiguous name; None for a name of one device or of none."""
    try:
        device_named(name, statuses)
    except Gone:
        return None
    except Invalid as error:
        return f"{error.reason}: {'; '.join(error.mistakes)}"
    return None


def range_of(labels: Sequence[str]) -> str:
    """Returns `0–3, 5` for consecutive numbers."""
    parts: list[list[str]] = []
    for label in labels:
        if parts and _follows(parts[-1][-1], label):
            parts[-1].append(label)
        else:
            parts.append([label])
    return ", ".join(f"{p[0]}–{p[-1]}" if len(p) > 2 else ", ".join(p) for p in parts)


def label_order(label: str) -> list[int]:
    """Returns a sort key: `6:1` sorts after `6:0`, and both between 5 and 7."""
    return [int(part) for part in label.split(":") if part.isdecimal()]


def unread_text(statuses: Sequence[DeviceStatus], one: str, several: str) -> str | None:
    """Returns `GPU 3, 5 do not respond: their processes are`; None if all respond."""
    labels = device_labels(statuses)
    silent = [labels[s.device.uuid] for s in statuses if s.state in NO_ANSWER]
    if not silent:
        return None
    verb, whose = ("does", one) if len(silent) == 1 else ("do", several)
    return f"{title(range_of(silent))} {verb} not respond: {whose}"


def _follows(one: str, other: str) -> bool:
    return one.isdigit() and other.isdigit() and int(other) == int(one) + 1


def _fits(name: str, status: DeviceStatus, label: str) -> bool:
    return _is_exact(name, status, label) or _starts(name, status.device.uuid)


def _is_exact(name: str, status: DeviceStatus, label: str) -> bool:
    device = status.device
    if name == label or name.lower() == device.uuid.lower():
        return True
    cuda = re.fullmatch(_CUDA, name, _ANY_CASE)
    if cuda is not None:
        number = device.index if device.vendor == SIMULATED else status.cuda_index
        return status.visible and number == int(cuda[1])
    return device.pci is not None and _same_place(name, device.pci)


def _starts(name: str, uuid: str) -> bool:
    return len(name) >= SHORTEST_PREFIX and uuid.lower().startswith(name.lower())


def _same_place(name: str, pci: str) -> bool:
    """Whether two PCI addresses are the same as numbers: `1a:00.0` and `00000000:1A:00.0` are."""
    typed, there = re.fullmatch(_PCI, name, _ANY_CASE), re.fullmatch(_PCI, pci, _ANY_CASE)
    if typed is None or there is None:
        return False
    wanted, known = ([int(part or "0", 16) for part in match.groups()] for match in (typed, there))
    return wanted[1:] == known[1:] and (typed[1] is None or wanted[0] == known[0])


def _outermost(found: Sequence[DeviceStatus]) -> list[DeviceStatus]:
    """Leaves out the partitions of a board that matches too: the board includes them."""
    uuids = {status.device.uuid for status in found}
    return [status for status in found if status.device.parent not in uuids]


def _only(
    name: str,
    found: Sequence[DeviceStatus],
    statuses: Sequence[DeviceStatus],
    labels: dict[str, str],
) -> DeviceStatus:
    if len(found) == 1:
        return found[0]
    shown = repr(name[:LONGEST_SHOWN])
    if not found:
        known = ", ".join(_listed(list(labels.values()))) or "none"
        if is_cuda_number(name) and all(_is_unnumbered(s) for s in statuses):
            raise Gone(
                f"it is not known which device CUDA calls {shown} here",
                hint=f"set CUDA_DEVICE_ORDER=PCI_BUS_ID, or use one of: {known}",
            )
        raise Gone(f"there is no device {shown}", hint=f"the devices here: {known}")
    lines = [f"{title(labels[s.device.uuid])}: {s.device.uuid} ({s.device.name})" for s in found]
    raise Invalid(
        f"{shown} matches several devices",
        hint="name one of them by its index or its full UUID",
        mistakes=tuple(_listed(lines)),
    )


def _is_unnumbered(status: DeviceStatus) -> bool:
    return status.cuda_index is None and status.device.vendor != SIMULATED


def _listed(items: list[str]) -> list[str]:
    left = len(items) - MOST_LISTED
    return items if left <= 0 else [*items[:MOST_LISTED], f"and {left} more"]


# What people call a model of device: without its maker, and how many of which there are.

_NOISE = (
    r"\b(NVIDIA|GeForce|Tesla|Quadro|AMD|Radeon(?= (RX|PRO|Pro))|Instinct|ATI|Intel(\(R\))?"
    r"|Data Center GPU|Generation|Graphics|Corporation|\(R\)|\(TM\))(?=\s|$)"
    r"|(\s*\((simulated|replayed)\))+$"
)
_SIZE = r"[- ]\d+ ?GB\b|[- ]HBM\d\w?|[- ]PCIe\b"


def short_model(name: str, brief: bool = False) -> str:
    """Returns a model's name without its maker, and without its size if `brief`."""
    maker, _, model = name.partition(" ")
    if maker == "NVIDIA" and model[:1].isalpha() and model[1:].isdecimal():
        return model  # H200, L4: to compile the patterns takes longer than to draw a table
    short = re.sub(_NOISE, "", name)
    if brief:
        short = re.sub(_SIZE, "", short)
    return " ".join(short.split()) or name


def models_text(names: Iterable[str]) -> str:
    """Returns `2 × H200`, `1 × H100 + 2 × A100`; empty if there is none."""
    models = Counter(short_model(name, brief=True) for name in names)
    return " + ".join(f"{count} × {model}" for model, count in models.items())


def chosen_uuids(snapshot: Snapshot, wanted: Sequence[str]) -> set[str]:
    """Returns the named devices; a board includes its partitions."""
    return {uuid for name in wanted for uuid in devices_named(name, snapshot.devices)}


def narrowed(snapshot: Snapshot, wanted: Sequence[str]) -> Snapshot:
    """Returns the snapshot with the named devices, or with all if none is named."""
    return only(snapshot, chosen_uuids(snapshot, wanted)) if wanted else snapshot


def only(snapshot: Snapshot, uuids: set[str]) -> Snapshot:
    """Returns the snapshot with only these devices."""
    devices = tuple(s for s in with_labels(snapshot.devices) if s.device.uuid in uuids)
    return replace(snapshot, devices=devices)
