"""A watcher as a process of its own, with a hasty clock; it watches until it is killed.

    watching.py DATABASE TOLD TIMES

Devices are lost in turn and come back; a command appends each message to the file TOLD. So many
times a watcher is forked, says its pid and watches until it is killed; the last one watches healthy
devices until everything is told, and ends.
"""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from andon.alerts.rules.messages import MessageContext
from andon.alerts.rules.routes import Route
from andon.alerts.waits import AlertWaits
from andon.alerts.watcher import Watcher
from andon.explain.conditions.rulebook import Rulebook
from andon.model.alert import Alert, Notice
from andon.model.device import Device, DeviceStatus, Sample, Snapshot, State
from andon.notifiers.command import CommandNotifier
from andon.sampling.bus import Bus
from andon.settings.alerts import NotifierSettings
from andon.stores.sqlite_alerts import SqliteAlertStore

HASTE = 2000.0  # seconds of the watcher's clock in one of ours
DEVICES = 24
TICK_SECONDS = 0.004
SLOT_TICKS = 6  # how long a device stays lost


class Noting(CommandNotifier):
    """Notes what the command has acknowledged, beside what it was told."""

    def __init__(self, told: Path) -> None:
        command = ("/bin/sh", "-c", f"cat >> {told}")
        settings = NotifierSettings("it", "command", command=command)
        super().__init__(settings, MessageContext("node7", lambda at: 0.0))
        self._acknowledged = told.with_suffix(".acknowledged")

    def send(self, notices: Sequence[Notice], firing: Sequence[Alert]) -> None:
        super().send(notices, firing)
        with self._acknowledged.open("a") as file:
            file.write("".join(f"{notice.id}\n" for notice in notices))


def clocks() -> tuple[float, float]:
    return time.time(), HASTE * time.clock_gettime(time.CLOCK_BOOTTIME)


def look(lost: int | None) -> Snapshot:
    at = time.time()
    return Snapshot(
        "node7",
        at,
        boot="boot",
        devices=tuple(
            DeviceStatus(
                Device(f"GPU-{n}", n, "nvidia", "NVIDIA H200"),
                State.LOST if n == lost else State.OK,
                at,
                sample=Sample(at, temperature_celsius=40, utilization_percent=0),
            )
            for n in range(DEVICES)
        ),
    )


def watch(database: str, told: str, is_lossy: bool) -> None:
    notifier = Noting(Path(told))
    bus = Bus()
    watcher = Watcher(
        bus.subscribe(TICK_SECONDS, watching=False, size=64),
        Rulebook(renotify_seconds=0),  # what a restart takes is hours of this clock
        lambda: SqliteAlertStore(Path(database)),
        [(notifier, Route("it"))],
        boot="boot",
        waits=AlertWaits(gather=0.0),
        clock=clocks,
    )
    number = int(time.time() * 1000) % DEVICES * SLOT_TICKS
    while is_lossy or watcher.alerts() or watcher.health()["waiting"] or number < 200:
        lost = number // SLOT_TICKS % DEVICES if is_lossy else None
        bus.publish(look(lost), number * TICK_SECONDS)
        print(number, flush=True)
        time.sleep(TICK_SECONDS)
        number += 1
    watcher.close()


def main() -> None:
    database, told, times = sys.argv[1:]
    for _ in range(int(times)):
        child = os.fork()  # there are no threads yet: to start an interpreter takes much longer
        if not child:
            print("pid", os.getpid(), flush=True)
            watch(database, told, is_lossy=True)
        os.waitpid(child, 0)
    print("calm", flush=True)
    watch(database, told, is_lossy=False)


if __name__ == "__main__":
    main()
