"""Parses /proc/<pid>/stat, whose short name may itself contain spaces and parentheses."""

from msgspec import Struct

ENDED = (b"Z", b"X")  # a zombie, and a process that is being removed
KERNEL_THREAD = 0x00200000  # PF_KTHREAD


class Stat(Struct, frozen=True):
    """The fields that are used; times are in clock ticks, the start since boot."""

    comm: bytes
    state: bytes
    parent: int
    group: int
    session: int
    flags: int
    user_ticks: int
    system_ticks: int
    start_ticks: int
    resident_pages: int


def parse_stat(content: bytes) -> Stat | None:
    """Reads a complete stat; None for anything else."""
    head, _, tail = content.rpartition(b") ")
    values = tail.split()
    try:
        return Stat(
            head.partition(b"(")[2],
            values[0],
            int(values[1]),
            int(values[2]),
            int(values[3]),
            int(values[6]),
            int(values[11]),
            int(values[12]),
            int(values[19]),
            int(values[21]),
        )
    except (IndexError, ValueError):
        return None


def parse_stamp(content: bytes, opening: int = 0) -> tuple[int, bytes, int] | None:
    """Parses only start and short name, with the opening of the file: half the cost."""
    head, _, tail = content.rpartition(b") ")
    try:
        return int(tail.split(b" ", 20)[19]), head[head.index(b"(") + 1 :], opening
    except (IndexError, ValueError):
        return None
