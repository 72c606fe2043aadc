"""Processes under those that started them, so that eight ranks are shown under their torchrun."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from msgspec import Struct

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
    """The processes on devices and their ancestors, in the order of the former.

    What every login and container has (init, sshd, a shell, a shim) is left out at the top; a
    shell in the middle stays, because a script is often what the user is looking for.
    """
    wanted = list(dict.fromkeys(holders))
    below: dict[int, list[int]] = {}
    for pid in wanted:
        above = 0
        for one in _line_of(pid, links, set(wanted)):
            if one not in below.setdefault(above, []):
                below[above].append(one)
            above = one
    return list(_walk(below, 0, 0))


def _line_of(pid: int, links: Mapping[int, ParentLink], holders: set[int]) -> list[int]:
    """From the topmost ancestor worth showing down to the process itself."""
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
