"""Static information about devices, as text and as JSON."""

from msgspec.structs import asdict

from andon.cli.show import cells
from andon.cli.show.columns import label
from andon.cli.show.entries import (
    NamedDevice,
    entries,
    is_masked,
    runtime_of,
    unreal,
)
from andon.cli.show.render import UNMASKED, Mask, fault_lines, flow, paragraph
from andon.cli.show.text import Text, styled
from andon.model import wire
from andon.model.codec import to_json
from andon.model.device import DeviceStatus, MemoryKind, Snapshot, State
from andon.model.naming import device_labels, title
from andon.model.vendors import vendor_of
from andon.sampling.rules.masks import NOT_A_MASK
from andon.units import fixed

SCHEMA = "andon.devices/1"
INDENT = "  "


def render_devices(snapshot: Snapshot, width: int, mask: Mask = UNMASKED) -> list[Text]:
    """A block per device, then the masks, and why each backend found none."""
    masked = is_masked(snapshot)
    lines = [_heading(snapshot, width)]
    for entry in entries(snapshot):
        lines += [Text(), *_block(entry, masked, width)]
    if not snapshot.devices:
        lines += [Text(), styled("no GPU found")]
    if mask_lines := _masks(mask, width):
        lines += [Text(), *mask_lines]
    if snapshot.faults:
        lines += [Text(), *fault_lines(snapshot, width)]
    return lines


def _masks(mask: Mask, width: int) -> list[Text]:
    """The variables that decide which devices a program sees, and those that only seem to."""
    texts = (
        mask.source and f"mask: {mask.source}",
        mask.note,
        mask.container and f"{mask.container} {NOT_A_MASK}",
    )
    return [line for text in texts if text for line in paragraph(text, width, "dim")]


def _heading(snapshot: Snapshot, width: int) -> Text:
    parts = [styled(snapshot.node, "bold")]
    parts += [styled(f"{name} {version}") for name, version in snapshot.versions.items()]
    if mark := unreal(snapshot):
        parts.append(styled(mark, "bold reverse"))
    return flow(parts, 10_000)[0].fit(width)


def _block(entry: NamedDevice, masked: bool, width: int) -> list[Text]:
    status = entry.status
    heading = styled(title(label(entry, masked)), "bold") + styled(f"  {status.device.name}")
    if status.state is not State.OK:
        heading = heading + styled(f"  {status.state.text}", "yellow")
        heading = heading + styled(f" · {status.reason}" if status.reason else "", "dim")
    size = [*_size(status), *_limits(status), *_modes(status)]
    rows = [_identity(status), _place(status, masked), size]
    facts = [flow([_fact(*fact) for fact in row], width - len(INDENT)) for row in rows if row]
    lines = [heading] + [styled(INDENT) + line for row in facts for line in row]
    return [line.fit(width) for line in lines]


def _fact(name: str, value: str) -> Text:
    return styled(f"{name} ", "dim") + styled(value)


def _identity(status: DeviceStatus) -> list[tuple[str, str]]:
    device = status.device
    return [("uuid", device.uuid), ("pci", device.pci)] if device.pci else [("uuid", device.uuid)]


def _place(status: DeviceStatus, masked: bool) -> list[tuple[str, str]]:
    device = status.device
    out = [("vendor", device.vendor)]
    if device.parent:
        out.append(("board", device.parent))
    if status.cuda_index is not None:
        out.append((runtime_of(device.vendor), str(status.cuda_index)))
    if masked:
        out.append(("visible", "yes" if status.visible else "no: hidden by a mask"))
    return out


def _size(status: DeviceStatus) -> list[tuple[str, str]]:
    device, limits = status.device, status.device.limits
    shared = ", shared with the system" if device.memory_kind is MemoryKind.UNIFIED else ""
    out = []
    if device.memory_total_bytes is not None:
        out.append(("memory", f"{cells.gib(device.memory_total_bytes)} GiB{shared}"))
    if limits.sm_clock_mhz is not None:
        clock = f"max {vendor_of(device.vendor).clock}"
        out.append((clock, f"{limits.sm_clock_mhz} MHz"))
    if limits.pcie_generation is not None and limits.pcie_width is not None:
        out.append(("max PCIe link", f"{limits.pcie_generation}×{limits.pcie_width}"))
    if limits.pcie_slot_generation is not None and limits.pcie_slot_width is not None:
        out.append(("slot", f"{limits.pcie_slot_generation}×{limits.pcie_slot_width}"))
    return out


def _limits(status: DeviceStatus) -> list[tuple[str, str]]:
    limits, out = status.device.limits, []
    if limits.power_default_watts is not None:
        out.append(("default power limit", f"{fixed(limits.power_default_watts)} W"))
    if limits.slowdown_celsius is not None:
        out.append(("slowdown temperature", f"{limits.slowdown_celsius} °C"))
    return out


def _modes(status: DeviceStatus) -> list[tuple[str, str]]:
    """Returns the known modes; the JSON gives the reasons for the others."""
    setup, out = status.device.setup, []
    if setup.persistence is not None:
        out.append(("persistence mode", _word(setup.persistence)))
    if setup.ecc is not None:
        differs = setup.ecc_pending not in (None, setup.ecc)
        later = f", {_word(not setup.ecc)} after a reboot" if differs else ""
        out.append(("ECC", f"{_word(setup.ecc)}{later}"))
    return out


def _word(mode: bool) -> str:
    return "on" if mode else "off"


def devices_to_json(snapshot: Snapshot) -> wire.Json:
    names = device_labels(snapshot.devices)
    return {
        "schema": SCHEMA,
        "node": snapshot.node,
        "at": snapshot.at,
        "simulated": snapshot.simulated,
        "versions": dict(snapshot.versions),
        "devices": [_to_json(s, names[s.device.uuid]) for s in snapshot.devices],
        "faults": [asdict(fault) for fault in snapshot.faults],
    }


def _to_json(status: DeviceStatus, label: str) -> wire.Json:
    return {
        **to_json(status.device),
        "label": label,
        "state": str(status.state),
        "reason": status.reason,
        "visible": status.visible,
        "cuda_index": status.cuda_index,
    }
