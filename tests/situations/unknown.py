"""What cannot be known, and errors."""

from msgspec.structs import replace

from andon.model.device import Device, DeviceStatus
from tests.situations.shared import PID, job, part, training
from tests.situations.story import (
    A100,
    GB10,
    GIB,
    MIB,
    T4,
    Model,
    Situation,
    Values,
    card,
    idle,
    process,
    seen,
    still,
    work,
)

MIG_REASON = "a MIG instance cannot tell it; only the whole board can"
BLANKS: Values = {
    "utilization_percent": None,
    "memory_utilization_percent": None,
    "temperature_celsius": None,
    "memory_temperature_celsius": None,
    "power_watts": None,
    "power_limit_watts": None,
    "energy_joules": None,
    "sm_clock_mhz": None,
    "memory_clock_mhz": None,
    "throttle": None,
    "encoder_percent": None,
    "decoder_percent": None,
    "pcie_generation": None,
    "pcie_width": None,
    "performance_state": None,
}
BOARD = card(A100)
SLICE = Device(
    uuid="MIG-3g40gb00-0000-4000-8000-000000000001",
    index=1,
    vendor="nvidia",
    name="NVIDIA A100-SXM4-80GB MIG 3g.40gb",
    parent=BOARD.uuid,
    memory_total_bytes=part(A100, 0.49),
)


def _partitioned() -> tuple[DeviceStatus, DeviceStatus]:
    board = work(
        A100,
        utilization_percent=None,
        memory_utilization_percent=None,
        memory_used_bytes=15 * GIB,
        power_watts=187.0,
        temperature_celsius=48,
    )
    instance = replace(
        work(A100, **BLANKS),
        memory_used_bytes=14 * GIB,
        memory_free_bytes=part(A100, 0.49) - 14 * GIB - 640 * MIB,
        ecc_uncorrected=None,
    )
    return (
        seen(
            BOARD,
            board,
            missing=dict.fromkeys(
                ("utilization_percent", "memory_utilization_percent"),
                "not supported while MIG is on",
            ),
        ),
        seen(
            SLICE,
            instance,
            process(PID, 14 * GIB - 300 * MIB, None),
            missing=dict.fromkeys(BLANKS, MIG_REASON),
        ),
    )


def _blind(model: Model, share: float) -> DeviceStatus:
    """A virtual card: memory, and hardly anything else."""
    used = part(model, share)
    sample = replace(
        work(model, **BLANKS),
        memory_used_bytes=used,
        memory_free_bytes=model.memory_bytes - used - 640 * MIB,
        fan_percent=None,
        ecc_uncorrected=None,
    )
    blanks = dict.fromkeys(BLANKS, "not supported by this virtual device")
    return seen(card(model), sample, missing=blanks | {"processes": "not supported"})


UNKNOWN = (
    Situation(
        name="A MIG instance shows no utilisation",
        source="github issues NVIDIA/dcgm-exporter#216, #50, utkuozdemir/nvidia_gpu_exporter#203",
        snapshots=still(*_partitioned(), looks=4),
        device=SLICE.uuid,
        expect="partitioned",
        never=frozenset(
            {
                "idle_held",
                "idle_memory",
                "unattributed_memory",
                "starved",
                "healthy",
            }
        ),
    ),
    Situation(
        name="A board whose MIG is on shows no utilisation either",
        source="github issues utkuozdemir/nvidia_gpu_exporter#203, NVIDIA/DCGM#80",
        snapshots=still(*_partitioned(), looks=4),
        device=BOARD.uuid,
        # Its memory is its instances', whose processes are listed with them. UNREADABLE would
        # be true; that MIG is the reason is more helpful.
        expect="partitioned",
        never=frozenset({"unattributed_memory", "idle_held", "idle_memory"}),
    ),
    Situation(
        name="A chip without memory of its own shows none",
        source=(
            "github issues lablup/all-smi#80, NordicHPC/sonar#460, snowflakedb/ArcticTraining#345 "
            "(pull)"
        ),
        snapshots=still(
            seen(
                card(GB10),
                idle(GB10, pcie_generation=None, pcie_width=None),
                missing={
                    "memory_used_bytes": "this chip uses the system's memory",
                    "memory_free_bytes": "this chip uses the system's memory",
                    "memory_reserved_bytes": "this chip uses the system's memory",
                },
            ),
            looks=4,
        ),
        device=card(GB10).uuid,
        expect="unified",
        never=frozenset(
            {
                "unattributed_memory",
                "idle_memory",
                "memory_full",
                "fan_failed",
                "narrow_link",
            }
        ),
    ),
    Situation(
        name="The process list cannot be read and three quarters of the memory are taken",
        source="github issues Project-HAMi/HAMi#235, microsoft/pai#2001, docker/for-linux#1531",
        snapshots=still(
            seen(
                card(A100),
                idle(A100, memory_used_bytes=part(A100, 0.75)),
                missing={"processes": "no permission to list the processes (NVML error 4)"},
            ),
            looks=6,
            every=10.0,
        ),
        device=card(A100).uuid,
        # Nobody can say whose it is, so nobody may say that it is nobody's.
        expect="unreadable",
        never=frozenset(
            {
                "unattributed_memory",
                "idle_memory",
                "idle_held",
                "healthy",
            }
        ),
    ),
    Situation(
        name="A virtual card reports its memory and nothing else",
        source="github issue Project-HAMi/HAMi#235, told of a virtual card",
        snapshots=still(_blind(T4, 0.4), looks=4),
        device=card(T4).uuid,
        expect="unreadable",
        never=frozenset(
            {
                "unattributed_memory",
                "partitioned",
                "idle_held",
                "healthy",
                "fan_failed",
            }
        ),
    ),
    Situation(
        name="Memory errors that could not be corrected, while a job still runs",
        source=(
            "github issues vllm-project/vllm#5222, NVIDIA/k8s-device-plugin#243, leptonai/gpud#80 "
            "(pull)"
        ),
        snapshots=still(
            seen(card(A100), work(A100, ecc_uncorrected=14), job(A100)), looks=4, every=10.0
        ),
        device=card(A100).uuid,
        expect="ecc",
        never=frozenset({"healthy", "heat", "lost"}),
        mentions=("14",),
    ),
    Situation(
        name="Of four cards one has memory errors and one is merely at its power limit",
        source="github pull Azure/azurehpc#617 (which counts mean that a node must leave service)",
        snapshots=still(
            seen(
                card(A100, 0),
                work(A100, power_watts=398.0, sm_clock_mhz=1290, throttle=("sw_power_cap",)),
                job(A100),
            ),
            training(A100, 1),
            seen(card(A100, 2), idle(A100, ecc_uncorrected=3)),
            training(A100, 3),
            looks=4,
        ),
        device="",
        expect="ecc",
        never=frozenset({"healthy", "power_bound"}),
        mentions=("3",),
    ),
)
