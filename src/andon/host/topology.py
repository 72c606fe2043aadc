"""Where a PCI device is in the kernel's tree, and the CPUs that a new process may run on."""

import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from andon.host.files import PAGE_BYTES, read
from andon.model.place import DevicePlace

# The CPUs that a new process may run on.


def allowed_cpus() -> frozenset[int]:
    """Returns the CPUs that this process may use; empty if the system does not tell."""
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()


@contextmanager
def on_cpus(cpus: Collection[int] | None) -> Iterator[None]:
    """Runs what this thread starts within the block on these CPUs; None: on any.

    A child inherits the CPUs of the thread that starts it. This needs no code between fork and
    exec, which could deadlock in a process with other threads.
    """
    if cpus is None:
        yield
        return
    before = os.sched_getaffinity(0)
    with suppress(OSError):  # all of them were taken away meanwhile: it runs unbound
        os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        with suppress(OSError):  # the CPUs may be gone, and the child has started
            os.sched_setaffinity(0, before)


# Where a PCI device is, from the kernel's files: no driver is called, and no device is woken.

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_CPUS = re.compile(r"[0-9][0-9,-]*")
ABSENT = "the kernel does not list its PCI address"
NO_NODE = "the kernel assigns it to no NUMA node"
NO_CPUS = "the kernel does not list the CPUs next to it"


def read_place(root: Path, pci: str | None) -> DevicePlace:
    """Reads the NUMA node of a device, the CPUs next to it, and the bridges above it."""
    if pci is None or not _ADDRESS.fullmatch(pci):
        why = "it has no PCI address"
        return DevicePlace(missing={"numa_node": why, "cpus": why, "bridges": why})
    folder = root / "sys/bus/pci/devices" / pci
    try:
        real = folder.resolve(strict=True)
    except (OSError, RuntimeError):
        return DevicePlace(missing=dict.fromkeys(("numa_node", "cpus", "bridges"), ABSENT))
    bridges = tuple(
        part for part in real.parts[:-1] if _ADDRESS.fullmatch(part) or _ROOT.fullmatch(part)
    )
    node, cpus = _node(_text(real / "numa_node")), _text(real / "local_cpulist")
    missing = {}
    if node is None:
        missing["numa_node"] = NO_NODE
    if not _CPUS.fullmatch(cpus):
        missing["cpus"] = NO_CPUS
    if not bridges:
        missing["bridges"] = ABSENT
    return DevicePlace(
        node, cpus if _CPUS.fullmatch(cpus) else None, bridges, source="sysfs", missing=missing
    )


def _text(path: Path) -> str:
    return (read(str(path), PAGE_BYTES) or b"").decode("ascii", "replace").strip()


def _node(text: str) -> int | None:
    """Parses a NUMA node; -1 means that the firmware does not report it."""
    return int(text) if text.isdecimal() and len(text) < 6 else None
