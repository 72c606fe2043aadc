"""What a test says of this machine: who listens at its ports, what is mounted, what runs on it."""

import os
from pathlib import Path

import pytest

from andon.api import watch
from andon.api.compat import monitor
from andon.host import file_systems, port_listeners
from andon.node import calls, usual_server

STRANGER = 65_534
"""A user who is neither the one who runs the tests nor a service of the system."""


def listened_by(monkeypatch: pytest.MonkeyPatch, *uids: int) -> list[tuple[str, int]]:
    """These users, and nobody else, listen at every port. Returns which ports are asked about."""
    asked: list[tuple[str, int]] = []

    def found(address: str, port: int, root: Path = Path("/")) -> frozenset[int]:
        asked.append((address, port))
        return frozenset(uids)

    for module in (calls, port_listeners):
        monkeypatch.setattr(module, "listeners", found)
    return asked


def mounted(monkeypatch: pytest.MonkeyPatch, mounts: str) -> None:
    """This is what the kernel lists as mounted."""
    monkeypatch.setattr(file_systems, "read_mounts", lambda: mounts)


def server_may_run(monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    """Whether there is a sign of a server of this machine."""
    monkeypatch.setattr(usual_server, "is_accepting", lambda _: is_there)


def fresh_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no call of the Python library had been made in this process."""
    for module, name in ((watch, "_shared"), (monitor, "_monitor")):
        monkeypatch.setattr(module, name, None)


def anothers(monkeypatch: pytest.MonkeyPatch, path: Path) -> Path:
    """Gives a file to another user; where only root could, this process is somebody else's."""
    if os.getuid() == 0:
        os.chown(path, STRANGER, STRANGER)
    else:
        monkeypatch.setattr(os, "getuid", lambda: STRANGER)
    return path
