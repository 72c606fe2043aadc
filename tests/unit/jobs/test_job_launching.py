"""Supervisors that do not answer."""

import os
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from andon.jobs import launching
from andon.jobs.launching import Supervisor


@pytest.mark.process
@pytest.mark.timeout(30)
def test_a_stopped_supervisor_does_not_stop_its_dispatcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large environment does not fit into the socket while no one reads it."""
    monkeypatch.setattr(launching, "SEND_SECONDS", 0.1, raising=False)
    held: Any = SimpleNamespace(hold=SimpleNamespace(descriptors=()))
    supervisor = Supervisor()
    try:
        os.kill(supervisor.pid, signal.SIGSTOP)
        with pytest.raises(TimeoutError):
            supervisor.send({"environment": {"BIG": "x" * 4_000_000}}, held)
    finally:
        supervisor.kill()
        supervisor.let_go()
