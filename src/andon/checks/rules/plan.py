"""How long each part of a check lasts, and how much memory it takes."""

from enum import StrEnum

from msgspec import Struct

from andon.units import GIB, MIB

PINNED_BYTES = 256 * MIB
SPARE_BYTES = GIB  # left to the driver, and to a desktop
CHUNK_BYTES, LEAST_CHUNK_BYTES = 4 * GIB, 16 * MIB
COPY_BYTES = 4 * GIB
ROTATION = 8  # a launch may become this much longer than the one before
LAUNCH_SECONDS = 0.1  # half of the 200 ms after which displays freeze and watchdogs wake
PATTERNS = ((0, 0), (0xFFFFFFFF, 0), (0xAAAAAAAA, 0), (0x55555555, 0))
"""Seed and step: every word the same."""
ADDRESSED = ((0x12345678, 0x9E3779B1), (0x0F1E2D3C, 0x85EBCA6B))
"""Every word another, so that a line of addresses that sticks shows."""
SILENT_SECONDS = 30.0  # without a line: a launch and a comparison take a second at most
START_SECONDS = 90.0  # a driver that starts, and compiles
END_SECONDS = 30.0  # to end after SIGKILL: a driver frees a large card slowly, on a busy machine


class CheckMode(StrEnum):
    """How thorough a check is."""

    QUICK = "quick"
    USUAL = "usual"
    FULL = "full"
    BURN = "burn"


class CheckPlan(Struct, frozen=True):
    """What the process of a card is to do; seconds for each part."""

    mode: CheckMode
    fp32_seconds: float
    tensor_seconds: float
    memory_seconds: float
    link_seconds: float
    passes: int  # over the memory
    addressed: bool = True


PLANS = {
    CheckMode.QUICK: CheckPlan(CheckMode.QUICK, 0.15, 0.3, 0.1, 0.4, 1, addressed=False),
    CheckMode.USUAL: CheckPlan(CheckMode.USUAL, 1.5, 4.0, 0.5, 0.5, 1),
    CheckMode.FULL: CheckPlan(CheckMode.FULL, 10.0, 30.0, 4.0, 2.0, 8),
}
LEAST_BURN_SECONDS = 30.0


def plan_for(mode: CheckMode, seconds: float = 0.0) -> CheckPlan:
    """Returns the plan of a mode; a burn heats the card with its tensor cores for this long."""
    if mode is CheckMode.BURN:
        return CheckPlan(mode, 5.0, max(seconds, LEAST_BURN_SECONDS), 4.0, 2.0, 8)
    return PLANS[mode]


def memory_to_test(free_bytes: int, shared_with_host: bool, available_bytes: int | None) -> int:
    """Returns how many bytes are tested: all but a spare; where the card shares the host's memory,
    at most a quarter of what is available there."""
    if shared_with_host:
        free_bytes = (
            min(free_bytes, free_bytes if available_bytes is None else available_bytes) // 4
        )
        return free_bytes // LEAST_CHUNK_BYTES * LEAST_CHUNK_BYTES
    spare = min(SPARE_BYTES, free_bytes // 4)
    return max(0, free_bytes - spare) // LEAST_CHUNK_BYTES * LEAST_CHUNK_BYTES


def next_rounds(rounds: int, seconds: float, most: int) -> int:
    """Returns how many rounds make a launch of the usual length, from one that was measured."""
    wanted = int(rounds * LAUNCH_SECONDS / max(seconds, 1e-6))
    return max(1, min(most, wanted, rounds * ROTATION))
