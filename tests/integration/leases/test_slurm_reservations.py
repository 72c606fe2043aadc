"""Slurm's own reservations, as a real Slurm tells them: they are shown beside andon's."""

import time
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from andon.app.slurm_reservations import SlurmReservations, read, slurm_reservations
from andon.model.device import Snapshot
from tests.integration.slurm import Slurm
from tests.integration.slurm import slurm as slurm
from tests.support.sharing_parts import gpu
from tests.support.waiting import wait_for

ZONE = "Asia/Kathmandu"
pytestmark = pytest.mark.process
BEGINS = int(time.time()) // 60 * 60 + 7200


def test_what_slurm_has_reserved_of_this_node_is_shown(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(slurm.configuration))
    monkeypatch.setenv("TZ", ZONE)  # Slurm names local times, unless it is told
    first, second = slurm.nodes
    start = datetime.fromtimestamp(BEGINS, ZoneInfo(ZONE)).strftime("%Y-%m-%dT%H:%M:%S")
    about = ("Users=root", f"StartTime={start}", "Duration=02:00:00")
    slurm("scontrol", "create", "reservation", "ReservationName=maint", f"Nodes={first}", *about)
    slurm("scontrol", "create", "reservation", "ReservationName=other", f"Nodes={second}", *about)
    [one] = read(first)
    assert (one.name, one.begins, one.ends, one.whose) == ("maint", BEGINS, BEGINS + 7200, "root")
    monkeypatch.setenv("SLURMD_NODENAME", first)
    told = slurm_reservations()
    assert isinstance(told, SlurmReservations)
    snapshot = Snapshot(first, time.time(), devices=(gpu(0), gpu(1)))
    wait_for(lambda: told(snapshot))
    [shown] = told(snapshot)
    assert (shown.name, shown.user, len(shown.devices)) == ("maint (Slurm)", "root", 2)
    assert shown.uid < 0
    monkeypatch.setenv("SLURM_CONF", "/nonexistent")
    assert slurm_reservations() is None
