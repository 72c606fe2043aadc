"""Whether the process of a run is still alive, as far as this machine can tell."""

from andon.host.processes.kin import here, started_ticks
from andon.host.system import node_name
from andon.model.run.record import RunBegin

FRESH_SECONDS = 60.0
"""A record that grows belongs to a run that lives: samples come every five seconds at most."""


def is_alive(begin: RunBegin, modified: float, now: float) -> bool:
    """Whether a run is alive, by its process; on another machine or in a container, by when its
    record last grew."""
    where, fresh = here(), now - modified < FRESH_SECONDS
    if begin.boot is None or begin.boot != where.boot:
        return fresh and begin.node != node_name()
    if begin.pid_namespace not in (None, where.pid_namespace):
        return fresh
    started = started_ticks(begin.pid)
    return started is not None and begin.started in (None, started)
