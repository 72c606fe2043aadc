"""Slurm's own reservations of this machine: shown beside andon's, made and ended with Slurm."""

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

from andon.failures.log import FailureLog
from andon.host.machine_id import node_name
from andon.leases.rules.slurm_reservations import BareReservation, bare_reservations, shown
from andon.model.device import Snapshot
from andon.model.lease import Reservation

EVERY_SECONDS = 120.0
TIMEOUT_SECONDS = 10.0
CONFIGURATION = "/etc/slurm/slurm.conf"


def slurm_reservations() -> "Callable[[Snapshot], tuple[Reservation, ...]] | None":
    """Returns what tells of them; None where Slurm does not run this machine."""
    configuration = os.environ.get("SLURM_CONF", CONFIGURATION)
    found = shutil.which("scontrol") is not None and os.path.exists(configuration)  # noqa: PTH110
    return SlurmReservations() if found else None


class SlurmReservations:
    """Asks Slurm in a thread of its own: whoever lists leases gets what it last answered."""

    def __init__(self, node: str | None = None) -> None:
        node = node or os.environ.get("SLURMD_NODENAME") or node_name()
        self._node = node.partition(".")[0]
        self._found: tuple[BareReservation, ...] = ()
        self._due, self._lock = 0.0, threading.Lock()
        self._failures = FailureLog("andon.leases", "Slurm's reservations cannot be read")

    def __call__(self, snapshot: Snapshot) -> tuple[Reservation, ...]:
        with self._lock:
            now = time.monotonic()
            is_due, self._due = (
                now >= self._due,
                self._due if now < self._due else now + EVERY_SECONDS,
            )
        if is_due:
            threading.Thread(target=self._read, name="andon slurm", daemon=True).start()
        return shown(self._found, [one.device for one in snapshot.devices], time.time())

    def _read(self) -> None:
        try:
            self._found = tuple(read(self._node))
        except (OSError, subprocess.SubprocessError) as error:
            self._failures.add(error)


def read(node: str) -> Iterator[BareReservation]:
    """Yields the reservations that Slurm has of a node."""
    for one in bare_reservations(_scontrol("-o", "show", "reservation")):
        if node in _scontrol("show", "hostnames", one.nodes).split():
            yield one


def _scontrol(*words: str) -> str:
    env = {**os.environ, "SLURM_TIME_FORMAT": "%s"}  # UTC seconds, whatever the zone
    done = subprocess.run(
        ["scontrol", *words], capture_output=True, text=True, check=True, env=env,
        timeout=TIMEOUT_SECONDS, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.stdout
