"""From how much on memory that no process explains counts: less than that is bookkeeping."""

from andon.units import GIB, MIB

LEAST_BYTES = GIB // 2  # less than this, or than 2 % of the device, is bookkeeping
LEAST_SHARE = 0.02
CONTEXT_BYTES = 256 * MIB  # what a process may take without its being counted for it


def least_unattributed_bytes(total_bytes: int | None, processes: int) -> float:
    return max(LEAST_BYTES, LEAST_SHARE * (total_bytes or 0), CONTEXT_BYTES * processes)
