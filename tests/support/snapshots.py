"""Snapshots built by hand for the golden files, and a sampler that plays them."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from andon.cli.commands.setup.cost import Cost, CostReport
from andon.cli.show.process_rows import HostUsage
from andon.host.processes.procfs import ProcessParent
from andon.model.device import (
    Device,
    DeviceStatus,
    Fault,
    Host,
    Limits,
    MemoryKind,
    Process,
    ProcessKind,
    Sample,
    Snapshot,
    State,
)
from andon.sampling.sampler import Costs
from andon.units import GIB, MIB

AT = 1_763_170_867.0  # 2025-11-15 01:41:07 UTC
NO_FAN = {"fan_percent": "not supported by this device"}
IN_MIG = dict.fromkeys(
    (
        "utilization_percent",
        "temperature_celsius",
        "power_watts",
        "power_limit_watts",
        "fan_percent",
        "sm_clock_mhz",
        "memory_clock_mhz",
        "throttle",
        "encoder_percent",
        "decoder_percent",
        "pcie_generation",
    ),
    "MIG instances do not report it; see the board",
)
H200 = Limits(
    slowdown_celsius=92,
    power_default_watts=700.0,
    pcie_generation=5,
    pcie_width=16,
    sm_clock_mhz=1980,
)
HOST = Host(cpu_percent=12.4, memory_used_bytes=91 * GIB, memory_total_bytes=504 * GIB, load_1m=3.2)

GOLDEN = Path(__file__).parents[1] / "golden"


def assert_golden(name: str, text: str) -> None:
    """The text is what the file holds; UPDATE_GOLDEN=1 writes the file instead."""
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


class Session(list[Snapshot]):
    """A subscription that has all its snapshots already."""

    dropped = missed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        pass


class FakeSampler:
    """Plays the snapshots it was given; `interrupted` ends them as Ctrl-C does."""

    def __init__(self, *snapshots: Snapshot, interrupted: bool = False) -> None:
        self.snapshots = snapshots
        self.interrupted = interrupted
        self.intervals: list[float] = []
        self._ticks = 0

    def ask_places(self) -> None:
        """Its snapshots are what they are."""

    def begin(self) -> None:
        """There is nothing to start."""

    def once(self, expensive_fields: bool = False, with_host: bool = True) -> Snapshot:
        return self.snapshots[0] if with_host else replace(self.snapshots[-1], host=Host())

    def subscribe(self, interval_seconds: float, watching: bool = False) -> "Session | Played":
        self.intervals.append(interval_seconds)
        return Played(self) if self.interrupted else Session(self.snapshots)

    def costs(self) -> Costs:
        self._ticks += 10
        spent = self._ticks / 1000
        return Costs(self._ticks, 0, spent * 0.2, spent * 0.3, spent * 0.5, spent * 2.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        pass


class Played(Session):
    """A session that a person ends with Ctrl-C."""

    def __init__(self, sampler: FakeSampler) -> None:
        super().__init__(sampler.snapshots)

    def __iter__(self) -> Iterator[Snapshot]:
        yield from super().__iter__()
        raise KeyboardInterrupt


def uuid(index: int) -> str:
    return f"GPU-{index:08x}-0000-4000-8000-000000000000"


def h200(index: int, used_gib: float = 0.0, **values: object) -> DeviceStatus:
    device = Device(
        uuid=uuid(index),
        index=index,
        vendor="nvidia",
        name="NVIDIA H200",
        pci=f"00000000:{0x10 + index:02X}:00.0",
        memory_total_bytes=143771 * MIB,
        limits=H200,
    )
    used = round(used_gib * GIB)
    readings: dict[str, object] = {
        "utilization_percent": 0,
        "memory_used_bytes": used,
        "memory_free_bytes": 143771 * MIB - used - 645 * MIB,
        "memory_reserved_bytes": 645 * MIB,
        "temperature_celsius": 34,
        "power_watts": 76.3,
        "power_limit_watts": 700.0,
        "sm_clock_mhz": 345,
        "memory_clock_mhz": 3201,
        "throttle": (),
        "encoder_percent": 0,
        "decoder_percent": 0,
        "pcie_generation": 5,
        "pcie_width": 16,
        **values,
    }
    sample = Sample(at=AT, **readings)  # type: ignore[arg-type]
    return DeviceStatus(device, State.OK, since=AT, sample=sample, missing=NO_FAN)


def busy(index: int, percent: int, used_gib: float, *processes: Process) -> DeviceStatus:
    status = h200(
        index,
        used_gib,
        utilization_percent=percent,
        temperature_celsius=52 + percent // 4,
        power_watts=90.0 + 6 * percent,
        sm_clock_mhz=1980,
        throttle=("sw_power_cap",) if percent > 90 else (),
    )
    return replace(status, processes=processes)


def work(pid: int, user: str | None, name: str, held_gib: float | None, **more: object) -> Process:
    return Process(
        pid=pid,
        started=AT - 3 * 3600 - 1200,
        user=user,
        name=name,
        command=f"{name} train.py --config runs/base.yaml",
        memory_bytes=None if held_gib is None else round(held_gib * GIB),
        **more,  # type: ignore[arg-type]
    )


def silent(index: int, state: State, reason: str, hint: str | None, ago: float) -> DeviceStatus:
    """A device that does not answer now; its last numbers are kept and must not be shown."""
    old = h200(index, 77.7, utilization_percent=77)
    return replace(old, state=state, reason=reason, hint=hint, since=AT - ago)


def mig_board(index: int) -> tuple[DeviceStatus, ...]:
    board = replace(
        h200(index, 20.1, utilization_percent=None, temperature_celsius=41, power_watts=102.0),
        device=Device(
            uuid=uuid(index),
            index=index,
            vendor="nvidia",
            name="NVIDIA A100-SXM4-80GB",
            pci="00000000:9A:00.0",
            memory_total_bytes=80 * GIB,
            limits=Limits(slowdown_celsius=89),
        ),
        missing={**NO_FAN, "utilization_percent": "not measured while MIG is on"},
    )
    return board, mig_part(board, 0, 18.0, work(901, "dora", "python", 17.9)), mig_part(board, 1, 0)


def mig_part(board: DeviceStatus, number: int, used_gib: float, *held: Process) -> DeviceStatus:
    device = Device(
        uuid=f"MIG-{board.device.index:04x}-{number}",
        index=number,
        vendor="nvidia",
        name="NVIDIA A100-SXM4-80GB MIG 3g.40gb",
        parent=board.device.uuid,
        memory_total_bytes=round(39.5 * GIB),
    )
    sample = Sample(at=AT, memory_used_bytes=round(used_gib * GIB))
    return DeviceStatus(device, State.OK, since=AT, sample=sample, missing=IN_MIG, processes=held)


def laptop(index: int) -> DeviceStatus:
    device = Device(
        uuid=uuid(index),
        index=index,
        vendor="nvidia",
        name="NVIDIA GeForce RTX 4090",
        memory_total_bytes=24564 * MIB,
    )
    reason = "suspended by the system, and left alone"
    return DeviceStatus(device, State.ASLEEP, since=AT - 7260, reason=reason)


def unified(index: int) -> DeviceStatus:
    device = Device(
        uuid=uuid(index),
        index=index,
        vendor="nvidia",
        name="NVIDIA GB10",
        memory_kind=MemoryKind.UNIFIED,
        memory_total_bytes=120 * GIB,
    )
    sample = Sample(at=AT, utilization_percent=31, memory_used_bytes=44 * GIB, power_watts=38.0)
    missing = {"power_limit_watts": "not supported by this device", **NO_FAN}
    return DeviceStatus(device, State.OK, since=AT, sample=sample, missing=missing)


def farm() -> Snapshot:
    """Eight boards: busy, idle, hot, lost, stale, asleep, divided, and with unexplained memory."""
    alice, bob = work(4101, "alice", "python", 96.2), work(4207, "bob", "训练🚀.py", 25.0)
    hot = busy(2, 100, 138.0, work(5012, "bob", "vllm", 130.1), work(5013, "carolina", "pt", 7.6))
    assert hot.sample is not None
    hot = replace(
        hot,
        sample=replace(
            hot.sample, temperature_celsius=84, throttle=("sw_power_cap", "sw_thermal_slowdown")
        ),
    )
    return Snapshot(
        node="node17",
        at=AT,
        boot="5f0c",
        versions={"driver": "580.159.04", "nvml": "13.580.159.04"},
        host=HOST,
        devices=(
            busy(0, 87, 121.3, alice, bob),
            h200(1),
            hot,
            silent(
                3, State.LOST, "the GPU has fallen off the bus (Xid 79)", "reboot the node", 130
            ),
            silent(4, State.STALE, "driver call stuck for 12 s", None, 12),
            laptop(5),
            *mig_board(6),
            busy(7, 3, 40.0, work(6001, "erin", "Xorg", 2.0, kind=ProcessKind.GRAPHICS)),
        ),
    )


def masked() -> Snapshot:
    """CUDA_VISIBLE_DEVICES=2,0 on a board of three."""
    plain = farm()
    seen = [
        replace(plain.devices[0], cuda_index=1),
        replace(plain.devices[1], visible=False),
        replace(plain.devices[2], cuda_index=0),
    ]
    return replace(plain, devices=tuple(seen))


def simulated() -> Snapshot:
    status = busy(0, 42, 20.0)
    device = replace(status.device, vendor="sim", name="Simulated H200")
    return replace(farm(), simulated=True, versions={}, devices=(replace(status, device=device),))


def no_gpu() -> Snapshot:
    fault = Fault(
        "nvidia",
        "the driver library libnvidia-ml.so.1 is not installed",
        "install the NVIDIA driver, or start the container with --gpus all",
    )
    return Snapshot(node="laptop", at=AT, host=HOST, faults=(fault,))


def faults() -> Snapshot:
    """One vendor works, another does not; nothing of the first is hidden."""
    fault = Fault("amd", "no permission to read /dev/kfd", "sudo usermod -aG render $USER")
    lost = silent(2, State.LOST, "the GPU is lost", "reboot the node, then: andon doctor", 7200)
    other = replace(lost, device=replace(lost.device, index=3, uuid=uuid(3)))
    return replace(farm(), devices=(busy(0, 64, 60.0), unified(1), lost, other), faults=(fault,))


HOSTS = {4101: HostUsage(312.5, 9 * GIB), 5012: HostUsage(None, 3 * GIB), 6001: HostUsage(0.0, GIB)}


def office() -> Snapshot:
    """The farm, with a container and a Slurm job among its processes."""
    plain = farm()
    alice, bob = plain.devices[0].processes
    first = replace(
        plain.devices[0],
        processes=(
            replace(alice, job="slurm:4711.0", utilization_percent=80),
            replace(bob, container="docker:jupyter-bob", job="session:3", utilization_percent=7),
        ),
    )
    return replace(plain, devices=(first, *plain.devices[1:]))


def launched() -> Snapshot:
    """Four ranks under one torchrun in a container, and a notebook of another user."""
    ranks = [
        busy(n, 98, 120.0, work(700 + n, "alice", "python", 119.0, container="docker:trainer"))
        for n in range(4)
    ]
    note = work(900, "bob", "python", 2.0, job="unit:jupyter.service")
    both = replace(ranks[3], processes=(*ranks[3].processes, note))
    return replace(farm(), devices=(*ranks[:3], both))


FAMILY = {
    link.pid: link
    for link in (
        ProcessParent(1, 0, "systemd"),
        ProcessParent(600, 1, "containerd-shim"),
        ProcessParent(650, 600, "torchrun"),
        *(ProcessParent(700 + n, 650, "python") for n in range(4)),
        ProcessParent(800, 1, "jupyter-lab"),
        ProcessParent(900, 800, "python"),
    )
}
ANCESTORS = {
    650: Process(650, user="alice", name="torchrun", container="docker:trainer",
                 command="torchrun --nproc-per-node 4 train.py"),
    800: Process(800, user="bob", name="jupyter-lab", command="jupyter-lab --no-browser"),
}  # fmt: skip


def ticks(count: int) -> list[Snapshot]:
    plain = farm()
    return [
        replace(
            plain,
            at=plain.at + number,
            devices=(busy(0, (17 * number) % 101, 9.0 + number), *plain.devices[1:]),
        )
        for number in range(count)
    ]


COSTS = CostReport(
    snapshots=20,
    devices=8,
    simulated=False,
    interval_seconds=1.0,
    sampler=Cost("andon itself", 0.0008, 0.001, 1.0),
    reader=Cost("its reader", 0.003, 0.004, 1.0),
    nvidia_smi=Cost("nvidia-smi", 0.114, 0.2, 1.0),
    reason=None,
)
