"""Which CPUs a command is bound to: those next to its devices that it may use."""

from collections.abc import Collection, Sequence

from msgspec import Struct

from andon.model.device import Device
from andon.model.place import cpu_list, parse_cpus


class CpuBinding(Struct, frozen=True):
    """The CPUs, or None if the command is not bound; and the reason as text."""

    cpus: frozenset[int] | None
    reason: str


def binding(devices: Sequence[Device], allowed: Collection[int]) -> CpuBinding:
    """Returns the CPUs next to any of the devices, as far as this process may use them."""
    unknown = [device for device in devices if not device.place.cpus]
    if unknown:
        name = f"GPU {unknown[0].index}"
        reason = unknown[0].place.missing.get("cpus") or unknown[0].place.missing.get("place")
        why = f": {reason}" if reason else ""
        return CpuBinding(None, f"not bound: the CPUs next to {name} are unknown{why}")
    near = frozenset[int]().union(*(parse_cpus(device.place.cpus or "") for device in devices))
    usable = near & frozenset(allowed)
    if not usable:
        mine = cpu_list(allowed) or "none"
        return CpuBinding(
            None,
            f"not bound: this process may use the CPUs {mine}, and those next to its devices are "
            f"{cpu_list(near)}",
        )
    known = {device.place.numa_node for device in devices}
    nodes = sorted(node for node in known if node is not None)
    where = f", NUMA node {', '.join(map(str, nodes))}" if nodes else ""
    if usable == frozenset(allowed):
        where += "; these are all that it may use"
    return CpuBinding(usable, f"bound to the CPUs {cpu_list(usable)}, next to its devices{where}")
