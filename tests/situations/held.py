"""Held, and not used."""

from msgspec.structs import replace

from tests.situations.shared import PID, part, training
from tests.situations.story import (
    A100,
    DAY,
    HOUR,
    MIB,
    MINUTE,
    RTX_4090,
    Situation,
    card,
    idle,
    process,
    seen,
    still,
)

HELD = (
    Situation(
        name="A batch job has a card and has never run a kernel on it",
        source=(
            "HPC help pages: researchcomputing.princeton.edu utilization policies, "
            "rc-docs.northeastern.edu idlebot"
        ),
        snapshots=still(
            seen(
                card(A100),
                idle(A100, memory_used_bytes=620 * MIB, sm_clock_mhz=1410, power_watts=63.0),
                replace(process(PID, 480 * MIB, 0, age=3 * HOUR), job="slurm:482113"),
            ),
            cpu=4.0,
            looks=10,
            every=MINUTE,
        ),
        device=card(A100).uuid,
        expect="idle_held",
        never=frozenset(
            {
                "idle_memory",
                "unattributed_memory",
                "starved",
                "healthy",
            }
        ),
        blames=PID,
    ),
    Situation(
        name="A program claimed four cards and computes on the first",
        source="HPC help pages on underused jobs: dicc.um.edu.my, rc.ufl.edu scheduler policy",
        snapshots=still(
            training(A100, 0),
            *[
                seen(
                    card(A100, n),
                    idle(A100, memory_used_bytes=560 * MIB, sm_clock_mhz=1410, power_watts=64.0),
                    replace(process(PID, 430 * MIB, 0, age=3 * HOUR), lease="lease-7"),
                )
                for n in (1, 2, 3)
            ],
            cpu=18.0,
            looks=10,
            every=MINUTE,
        ),
        device=card(A100, 3).uuid,
        expect="idle_held",
        never=frozenset(
            {
                "slower_than_peers",
                "low_clocks",
                "idle_memory",
                "starved",
                "healthy",
            }
        ),
        blames=PID,
    ),
    Situation(
        name="An inference server waits, and nobody has asked it for a long time",
        source=(
            "github issues vllm-project/vllm#7768 (idle at P8, 58 % held), "
            "NVIDIA/open-gpu-kernel-modules#874"
        ),
        snapshots=still(
            seen(
                card(RTX_4090),
                idle(
                    RTX_4090,
                    memory_used_bytes=part(RTX_4090, 0.9),
                    performance_state=8,
                    pcie_generation=1,
                ),
                process(
                    7100,
                    part(RTX_4090, 0.9) - 450 * MIB,
                    0,
                    age=6 * DAY,
                    name="VLLM::EngineCore",
                    command="vllm serve Qwen/Qwen3-8B --port 8000",
                    container="llm-server",
                ),
            ),
            cpu=1.0,
            looks=10,
            every=MINUTE,
        ),
        device=card(RTX_4090).uuid,
        # It holds memory by design and is there to wait: idle and held, which is not hoarding. One
        # can argue for IDLE_MEMORY (the letter) and for HEALTHY (the design).
        expect="idle_held",
        never=frozenset(
            {
                "unattributed_memory",
                "memory_leak",
                "starved",
                "fan_failed",
                "narrow_link",
            }
        ),
        blames=7100,
    ),
)
