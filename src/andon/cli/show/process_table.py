"""The table of `andon ps`: by size, by device with sums, or as a tree."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from andon.cli.show import cells
from andon.cli.show.process_rows import ProcessRow
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import Text, join, known, percent, styled, with_mark
from andon.host.rules.attribution import is_session
from andon.model.device import Process, ProcessKind
from andon.model.naming import label_order
from andon.model.programs import short_command
from andon.units import human_bytes

# Processes under those that started them, so that eight ranks are shown under their torchrun.

_SUPERVISORS = frozenset({
    "agetty", "bash", "catatonit", "conmon", "containerd-shim", "csh", "dash", "docker-init",
    "dumb-init", "fish", "init", "ksh", "login", "mosh-server", "screen", "SCREEN", "sh",
    "slurmstepd", "sshd", "sshd-session", "su", "sudo", "systemd", "tcsh", "tini", "tmux",
    "tmux: server", "zsh",
})  # fmt: skip


class ParentLink(Protocol):
    """A process and the one that started it."""

    @property
    def pid(self) -> int: ...
    @property
    def parent(self) -> int: ...
    @property
    def name(self) -> str: ...


class Branch(Struct, frozen=True):
    """One process of the forest; those that it started follow, one deeper."""

    pid: int
    depth: int


def forest(links: Mapping[int, ParentLink], holders: Iterable[int]) -> list[Branch]:
    """Returns the processes on devices and their ancestors, in the order of the processes.

    Ancestors that every login and container has (init, sshd, a shell, a shim) are left out at
    the top; a shell in the middle stays, because a script is often what the user is looking for.
    """
    wanted = dict.fromkeys(holders)
    below: dict[int, list[int]] = {}
    for pid in wanted:
        above = 0
        for one in _line_of(pid, links, wanted):
            if one not in below.setdefault(above, []):
                below[above].append(one)
            above = one
    return list(_walk(below, 0, 0))


def _line_of(pid: int, links: Mapping[int, ParentLink], holders: Container[int]) -> list[int]:
    """Returns the pids from the topmost ancestor worth showing down to the process itself."""
    line = [pid]
    while (link := links.get(line[-1])) and link.parent in links and link.parent not in line:
        line.append(link.parent)
    while len(line) > 1 and line[-1] not in holders and _is_common(links[line[-1]]):
        line.pop()
    return line[::-1]


def _is_common(link: ParentLink) -> bool:
    return link.pid == 1 or link.name in _SUPERVISORS or link.name.startswith("containerd-shim")


def _walk(below: Mapping[int, list[int]], pid: int, depth: int) -> Iterable[Branch]:
    for child in below.get(pid, ()):
        yield Branch(child, depth)
        yield from _walk(below, child, depth + 1)


NO_PROCESS = "no process is using a GPU"


class ProcessLine(Struct, frozen=True):
    """One row of the table: a process on a device, an ancestor that uses none, or a sum."""

    use: ProcessRow | None
    process: Process | None
    depth: int = 0
    first: bool = True  # of its device, where rows are grouped by device
    summed: "ProcessSum | None" = None


class ProcessSum(Struct, frozen=True):
    """What the processes of one device use together."""

    processes: int
    users: int
    memory_bytes: int | None


def render_uses(
    found: list[ProcessRow], width: int, mark: str = "", empty: str = NO_PROCESS
) -> list[Text]:
    """The table of `andon ps`, in the order of the rows."""
    return _render([ProcessLine(use, use.process) for use in found], width, mark, empty)


def render_by_device(
    found: list[ProcessRow], width: int, mark: str = "", empty: str = NO_PROCESS
) -> list[Text]:
    """The same by device, each with its sum."""
    groups: dict[str, list[ProcessRow]] = {}
    for use in sorted(found, key=lambda use: label_order(use.entry.label)):
        groups.setdefault(use.entry.label, []).append(use)
    lines: list[ProcessLine] = []
    for uses in groups.values():
        lines += [
            ProcessLine(use, use.process, first=number == 0) for number, use in enumerate(uses)
        ]
        if len(uses) > 1:
            lines.append(ProcessLine(None, None, summed=_sum(uses)))
    return _render(lines, width, mark, empty)


def render_tree(
    found: list[ProcessRow],
    branches: list[Branch],
    ancestors: Mapping[int, Process],
    width: int,
    mark: str = "",
) -> list[Text]:
    """The same, with every process under the one that started it."""
    lines: list[ProcessLine] = []
    for branch in branches:
        own = [use for use in found if use.process and use.process.pid == branch.pid]
        lines += [ProcessLine(use, use.process, branch.depth) for use in own]
        if not own:
            process = ancestors.get(branch.pid, Process(branch.pid))
            lines.append(ProcessLine(None, process, branch.depth))
    lines += [ProcessLine(use, None) for use in found if use.process is None]
    return _render(lines, width, mark, NO_PROCESS)


def _sum(uses: Sequence[ProcessRow]) -> ProcessSum:
    sizes = [use.memory_bytes for use in uses]
    known = [size for size in sizes if size is not None]
    processes = [use.process for use in uses if use.process]
    users = len({process.user for process in processes if process.user})
    return ProcessSum(len(processes), users, sum(known) if len(known) == len(sizes) else None)


def _render(rows: list[ProcessLine], width: int, mark: str, empty: str) -> list[Text]:
    lines = [styled(empty, "dim").fit(width)]
    if rows:
        drawn = [TableRow(row, style=None if row.use else "dim") for row in rows]
        lines = draw(_columns(rows), drawn, width)
    return with_mark(lines, mark, width)


def _columns(rows: list[ProcessLine]) -> list[TableColumn[ProcessLine]]:
    shown = [row.process for row in rows if row.process]
    columns: list[TableColumn[ProcessLine]] = [
        TableColumn("GPU", _device, rank=0),
        TableColumn("USER", lambda r: _word(r, "user"), rank=1, elastic=8),
        TableColumn("PID", lambda r: _word(r, "pid"), rank=2, right=True),
        TableColumn("TYPE", _kind, rank=9),
        TableColumn("GPU MEM", _memory, rank=3, right=True),
        TableColumn("UTIL", _of_use(_busy), rank=5, right=True, floor=4),
        TableColumn("CPU", _of_use(lambda u: percent(u.host.cpu_percent)), rank=7, right=True,
               floor=4),
        TableColumn("HOST MEM", _of_use(lambda u: known(u.host.memory_bytes, human_bytes)),
               rank=10, right=True),
        TableColumn("TIME", _of_use(lambda u: elapsed(u.elapsed_seconds)), rank=8, right=True),
        TableColumn("COMMAND", _command, rank=4, elastic=24),
    ]  # fmt: skip
    if any(map(places, shown)):
        columns.insert(-1, TableColumn("CONTAINER/JOB", _within, rank=6, elastic=14))
    return columns


def places(process: Process) -> list[str]:
    """Returns its container and its job; a login session is not worth a column."""
    job = None if is_session(process.job) else process.job
    return [place for place in (process.container, job) if place]


def _of_use(cell: Callable[[ProcessRow], Text]) -> Callable[[ProcessLine], Text]:
    """Makes a cell that is empty for sums and for ancestors that use no device."""
    return lambda row: cell(row.use) if row.use else Text()


def _device(row: ProcessLine) -> Text:
    return styled(row.use.entry.label if row.use and row.first else "", "bold")


def _memory(row: ProcessLine) -> Text:
    if row.summed is not None:
        return known(row.summed.memory_bytes, human_bytes)
    return known(row.use.memory_bytes, human_bytes) if row.use else Text()


def _word(row: ProcessLine, name: str) -> Text:
    if row.summed is not None:
        return Text()
    value = getattr(row.process, name, None)
    return known(value)


def _within(row: ProcessLine) -> Text:
    return join([styled(place) for place in places(row.process)] if row.process else [], ", ")


def _kind(row: ProcessLine) -> Text:
    """Returns C or G, as in nvidia-smi."""
    if row.process is None or row.use is None:
        return Text()
    return styled("G" if row.process.kind is ProcessKind.GRAPHICS else "C", "dim")


def _busy(use: ProcessRow) -> Text:
    share = use.process.utilization_percent if use.process else None
    return percent(share, cells.load_style(share))


def _command(row: ProcessLine) -> Text:
    process = row.process
    if row.summed is not None:
        many = f"{row.summed.processes} process{'es' * (row.summed.processes != 1)}"
        of = f" of {row.summed.users} users" if row.summed.users > 1 else ""
        return styled(f"sum: {many}{of}")
    if process is None:
        return styled("unaccounted memory", "yellow")
    command = short_command(process.command)
    text = styled(command or process.name or "–", "" if command else "dim")
    return styled("  " * (row.depth - 1) + "└ ", "dim") + text if row.depth else text


def elapsed(seconds: float | None) -> Text:
    """Formats a duration as ps and squeue do: `3:20:05`, `2d04h`."""
    if seconds is None:
        return known(None)
    whole = int(seconds)
    days, rest = divmod(whole, 86400)
    if days:
        return styled(f"{days}d{rest // 3600:02d}h")
    hours, rest = divmod(rest, 3600)
    return styled(f"{hours}:{rest // 60:02d}:{rest % 60:02d}")
