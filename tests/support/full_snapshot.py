"""A snapshot in which every kind of value occurs."""

from andon.model.device import (
    Device,
    DeviceStatus,
    Disk,
    Fault,
    Host,
    Limits,
    Network,
    Process,
    ProcessKind,
    Sample,
    Snapshot,
    State,
)

FULL = Snapshot(
    node="n1",
    at=1000.5,
    boot="b",
    versions={"driver": "580"},
    host=Host(12.5, 10, 20, 0.5, (Disk("/", 1, 2),), (Network("eth0", 3, 4),)),
    devices=(
        DeviceStatus(
            Device("GPU-1", 0, "nvidia", "H200", "0000:01:00.0", memory_total_bytes=1000,
                   limits=Limits(89, 700.0, 5, 16, 1980)),
            State.OK, 1.0, cuda_index=0,
            sample=Sample(1000.4, utilization_percent=80, memory_used_bytes=500, power_watts=350.0,
                          power_limit_watts=700.0, throttle=("sw_power_cap",),
                          read_at={"energy_joules": 940.0}, energy_joules=5.0),
            missing={"fan_percent": "not supported by this device"},
            processes=(Process(7, ProcessKind.COMPUTE, 1.5, "python", "alice", "python t", 400),),
        ),
        DeviceStatus(
            Device("GPU-2", 1, "nvidia", "H200"), State.LOST, 2.0, "lost", "dmesg", visible=False
        ),
    ),
    faults=(Fault("amd", "no library", "install it"),),
)  # fmt: skip
