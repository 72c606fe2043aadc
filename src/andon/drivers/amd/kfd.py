"""Processes that compute through ROCm, which the kernel lists under /sys/class/kfd."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from andon.drivers.shared.sysfs import Tree
from andon.model.device import Process, ProcessKind

_KFD = "sys/class/kfd/kfd"
_FUNCTION_BITS = 0xFFFF  # bus, device, function; newer kernels put the partition above them


def parse_properties(text: str) -> dict[str, int]:
    """Parses a node's `name value` lines."""
    found = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 2 and fields[1].isdecimal() and fields[1].isascii():
            found[fields[0]] = int(fields[1])
    return found


def address(properties: dict[str, int]) -> str | None:
    """Returns the PCI address of a node; a processor's node has none."""
    location = properties.get("location_id", 0) & _FUNCTION_BITS
    if not location:
        return None
    bus, device, function = location >> 8, location >> 3 & 0x1F, location & 7
    return f"{properties.get('domain', 0):04x}:{bus:02x}:{device:02x}.{function}"


def ids(tree: Tree, pci: str) -> tuple[int, ...]:
    """Returns the KFD ids of a card: one, or one per partition."""
    found = []
    for node in tree.names(f"{_KFD}/topology/nodes"):
        folder = f"{_KFD}/topology/nodes/{node}"
        properties = parse_properties(tree.text(f"{folder}/properties").value or "")
        number = tree.integer(f"{folder}/gpu_id").value
        if number and address(properties) == pci:
            found.append(number)
    return tuple(found)


def processes(tree: Tree, numbers: Iterable[int]) -> dict[int, int]:
    """Returns the bytes of the card's memory by pid, for processes that use it."""
    wanted = tuple(numbers)
    found = {}
    for name in tree.names(f"{_KFD}/proc") if wanted else ():
        if not name.isdecimal():
            continue
        held = _held_bytes(tree, name, wanted)
        # Every process has a counter for every card; a zero needs another sign of use.
        if held or (held is not None and _has_queue(tree, name, wanted)):
            found[int(name)] = held
    return found


def _held_bytes(tree: Tree, pid: str, numbers: tuple[int, ...]) -> int | None:
    counters = [tree.integer(f"{_KFD}/proc/{pid}/vram_{number}").value for number in numbers]
    known = [count for count in counters if count is not None]
    return sum(known) if known else None


def _has_queue(tree: Tree, pid: str, numbers: tuple[int, ...]) -> bool:
    folder = f"{_KFD}/proc/{pid}/queues"
    return any(
        tree.integer(f"{folder}/{queue}/gpuid").value in numbers for queue in tree.names(folder)
    )


def merged(listed: Iterable[Process], computing: dict[int, int]) -> Iterator[Process]:
    """Yields every process once: compute processes are marked, and memory is not counted twice.

    Both sources count the memory of a process on a card, each with gaps: the larger value is
    closer.
    """
    rest = dict(computing)
    for process in listed:
        held = rest.pop(process.pid, None)
        if held is None:
            yield process
            continue
        memory = max(held, process.memory_bytes or 0)
        # A share of zero is not a reading: ROCm's queues are not among the listed engines.
        share = process.utilization_percent or None
        yield replace(
            process, kind=ProcessKind.COMPUTE, memory_bytes=memory, utilization_percent=share
        )
    for pid, held in rest.items():
        yield Process(pid, ProcessKind.COMPUTE, memory_bytes=held)
