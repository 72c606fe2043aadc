"""Which processes cause what a device does: by share of its time, else by memory."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from andon.model.device import Device, DeviceStatus, MemoryKind, Process, ProcessKind, party
from andon.model.event import Party
from andon.model.naming import device_labels, range_of, title
from andon.model.programs import program_of
from andon.units import GIB, MIB

ALIKE = 0.9  # of the largest share: what differs less is the noise of a reading
MOST_USERS = 3
MOST_PARTIES = 5


class Blame(Struct, frozen=True):
    """The processes that are named as the cause: one, or several that use the device equally."""

    processes: tuple[Process, ...]

    @property
    def one(self) -> Process | None:
        """The process, if it is only one."""
        return self.processes[0] if len(self.processes) == 1 else None

    @property
    def users(self) -> tuple[str, ...]:
        """Returns the users of the processes, each once; without unknown ones."""
        return tuple(dict.fromkeys(p.user for p in self.processes if p.user))

    @property
    def text(self) -> str:
        """`alice's train.py`, or `7 processes of dora, caroline and bob`."""
        first = self.processes[0]
        if self.one is not None:
            return owned(first)
        whose = listed_users(self.users, more=any(p.user is None for p in self.processes))
        count = f"{len(self.processes)} processes"
        return f"{count} of {whose}" if whose else count


def blamed(processes: Iterable[Process]) -> Blame | None:
    """Returns who is blamed; None if there is no process."""
    ranked = ranked_processes(processes)
    if not ranked:
        return None
    compute = [p for p in ranked if p.kind is ProcessKind.COMPUTE] or ranked
    busy = [p for p in ranked if p.utilization_percent]
    if busy:
        return Blame(tuple(_most(busy, [p.utilization_percent or 0 for p in busy])))
    sizes = [p.memory_bytes for p in compute]
    if None in sizes:
        return Blame(tuple(compute))  # the largest cannot be determined
    return Blame(tuple(_most(compute, [size or 0 for size in sizes])))


def ranked_processes(processes: Iterable[Process]) -> list[Process]:
    """Compute processes first, then by what they use: the first are blamed."""
    return sorted(processes, key=_rank)


def owned(one: Process | Party) -> str:
    """Returns `alice's train.py`, or without its user if unknown."""
    return f"{one.user}'s {program(one)}" if one.user else program(one)


def program(one: Process | Party) -> str:
    """Returns the common name of a process."""
    return program_of(one.command, one.name) or f"process {one.pid}"


def slurm_job(one: Process | Party) -> str | None:
    """Returns the number of the Slurm job that a process is in; None if it is in none."""
    kind, _, step = (one.job or "").partition(":")
    return step.partition(".")[0] if kind == "slurm" else None


def in_job(one: Process | Party) -> str | None:
    """Returns `Slurm job 42`; None if it is in none."""
    number = slurm_job(one)
    return None if number is None else f"Slurm job {number}"


def pid_with(one: Process | Party, user: str | None = None) -> str:
    """Returns `pid 4711 (bob, python, Slurm job 42)` for the texts of alerts, which everyone sees:
    the name of a script is in the command line, which not everyone may see."""
    known = ", ".join(filter(None, (user, one.name, in_job(one))))
    return f"pid {one.pid} ({known})" if known else f"pid {one.pid}"


def listed_users(users: Sequence[str], more: bool = False) -> str:
    """`dora, caroline and bob`; `more` says that there are others."""
    shown, left = list(users[:MOST_USERS]), len(users) - MOST_USERS
    if left > 0:
        shown.append(f"{left} more")
    elif more and shown:
        shown.append("others")
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def last_used(statuses: Iterable[DeviceStatus]) -> list[str]:
    """`GPU 3, 5: last used by alice`, for devices that do not respond."""
    listed = tuple(statuses)
    labels, found = device_labels(listed), dict[str, list[str]]()
    for status in listed:
        if status.last_users:
            found.setdefault(listed_users(status.last_users), []).append(labels[status.device.uuid])
    return [f"{title(range_of(gpus))}: last used by {users}" for users, gpus in found.items()]


def _most(processes: Sequence[Process], shares: Sequence[int]) -> Iterable[Process]:
    least = ALIKE * max(shares)
    return (one for one, share in zip(processes, shares, strict=True) if share >= least)


def _rank(process: Process) -> tuple[bool, int, int, int]:
    graphics = process.kind is not ProcessKind.COMPUTE
    used, held = process.utilization_percent or 0, process.memory_bytes or 0
    return graphics, -used, -held, process.pid


# What "unattributed memory" means: memory in use by no visible process, beyond driver overhead.

LEAST_BYTES = GIB // 2  # less than this, or than 2 % of the device, is driver overhead
LEAST_SHARE = 0.02
CONTEXT_BYTES = 256 * MIB  # what a process may use without it being attributed


def owns_memory(device: Device, divided: bool) -> bool:
    """Whether the memory is the device's alone: neither the system's nor that of its instances."""
    return device.memory_kind is MemoryKind.DEVICE and not divided


def least_unattributed_bytes(total_bytes: int | None, processes: int) -> float:
    """Returns how much unattributed memory is only driver overhead."""
    return max(LEAST_BYTES, LEAST_SHARE * (total_bytes or 0), CONTEXT_BYTES * processes)


def unattributed_bytes(status: DeviceStatus, divided: bool = False) -> int | None:
    """Returns the unattributed memory of a device; 0 if there is no more than driver overhead.

    None if it is unknown, or if the memory is not the device's alone. `divided` is a board that is
    used through its instances.
    """
    spare = status.memory_unattributed_bytes if status.answered else None
    if spare is None or not owns_memory(status.device, divided):
        return None
    least = least_unattributed_bytes(status.device.memory_total_bytes, len(status.processes))
    return spare if spare > least else 0


def parties(processes: Iterable[Process]) -> tuple[Party, ...]:
    """Returns who is affected; blamed processes come first."""
    ranked = ranked_processes(processes)[:MOST_PARTIES]
    return tuple(party(process) for process in ranked)
