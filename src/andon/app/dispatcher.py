"""The process `dispatcher FOLDER LOCK`: starts the jobs of a folder.

LOCK is the descriptor of the locked file: the process that starts a dispatcher takes the lock.
Without arguments it is a service: it waits for the lock, and goes on when there is nothing to do.
"""

import logging
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from andon.app.leases import open_availability
from andon.app.runs import recording
from andon.app.sampler import open_sampler
from andon.app.settings import load_settings
from andon.errors import AndonError, Invalid
from andon.host.processes.kin import myself, pid_scope
from andon.host.service_manager import taken
from andon.jobs.dispatcher import Dispatcher, Kind
from andon.jobs.folder import JobsFolder, open_jobs_folder
from andon.jobs.launching import INDEX_VARIABLE, JOB_VARIABLE, DispatcherSettings
from andon.jobs.rules.views import MOST_REASONS
from andon.jobs.scan import Scanner
from andon.jobs.starting import lock_dispatcher
from andon.jobs.taking import DeviceTaker
from andon.leases.rules.environment import LEASE_VARIABLE
from andon.model.job.facts import Holdup, dumps
from andon.model.job.spec import NotifyWhen
from andon.runs.rules.ranks import RECORD_VARIABLE, RUN_VARIABLE
from andon.sampling.rules.masks import VARIABLES
from andon.settings.resolution import Settings

LOCK_TRIES, LOCK_SECONDS = 10, 0.05
"""A process that checks whether a dispatcher runs holds the lock for a moment."""
TURN_SECONDS = 1.0  # between two looks of a service for whether another dispatcher has ended
OUTER = (*VARIABLES, LEASE_VARIABLE, RUN_VARIABLE, RECORD_VARIABLE, JOB_VARIABLE, INDEX_VARIABLE)
"""Variables of the process that started it; they do not concern other jobs."""


def main(arguments: Sequence[str]) -> int:
    for name in OUTER:
        os.environ.pop(name, None)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if not arguments:
        return _serve()
    folder, lock = JobsFolder(Path(arguments[0])), int(arguments[1])
    return _dispatch_while_needed(folder, lock)


def _dispatch_while_needed(folder: JobsFolder, lock: int | None) -> int:
    while lock is not None:
        os.set_inheritable(lock, False)
        try:
            changed_at = _dispatch(folder, lock)
        finally:
            os.close(lock)
        if folder.changed_at() == changed_at:
            return 0
        lock = _lock(folder)  # something came after the last look and before the lock was free
    return 0


def _serve() -> int:
    """Dispatches this user's jobs until a signal, after any other dispatcher has ended."""
    service = taken()
    works, folder = service.feed_by_turns(), open_jobs_folder()
    service.ready("another dispatcher of this user is still running")
    while (lock := lock_dispatcher(folder)) is None:
        works()
        time.sleep(TURN_SECONDS)
    service.ready("dispatching")
    _dispatch(folder, lock, math.inf, works)
    # Wrong settings ended it, or somebody removed the folder: then it is made again.
    return Invalid.exit_code if folder.path.is_dir() else 1


def _dispatch(
    folder: JobsFolder,
    lock: int,
    idle_seconds: float | None = None,
    works: Callable[[], None] = lambda: None,
) -> int:
    """Dispatches until there is nothing to do; returns when something last changed."""
    _announce(lock)
    try:
        settings = load_settings({}).settings
    except AndonError as error:
        return _record_why_not(folder, error)
    dispatcher = Dispatcher(
        folder,
        DispatcherSettings(
            settings.jobs_log_megabytes * 1_000_000,
            settings.jobs_idle_seconds if idle_seconds is None else idle_seconds,
            settings.work_grace_seconds,
            None if settings.notify_me_jobs == "no" else NotifyWhen(settings.notify_me_jobs),
            settings.notify_me_turn,
        ),
        lambda kind: open_taker(settings, kind),
        lambda ended: _notify(settings, folder, [facts.spec.number for facts in ended]),
    )
    try:
        dispatcher.run(works=works)
    finally:
        dispatcher.close()
    return dispatcher.changed_at


def _record_why_not(folder: JobsFolder, error: AndonError) -> int:
    """Writes the error where commands about waiting jobs show it: no one sees this process fail.
    The next command about jobs tries again."""
    logging.getLogger("andon.jobs").error("%s", error.reason)
    changed_at, at = folder.changed_at(), time.time()
    found = Scanner(folder).read().statuses(at, folder.paused)
    ready = [number for number, status in found.items() if status.is_ready]
    holdup = Holdup(f"no job can start: {error.reason}", at)
    folder.write_holdups(dict.fromkeys(ready[:MOST_REASONS], holdup), at)
    return changed_at


def open_taker(settings: Settings, kind: Kind) -> DeviceTaker:
    """Returns a device taker with a sampler of its own: for real devices, or simulated ones."""
    simulate, scenario, book = kind
    used = replace(settings, simulate=simulate or 0, replay="")
    used = replace(used, simulate_scenario=scenario or settings.simulate_scenario)
    sampler = open_sampler(used)
    availability = open_availability(
        used,
        lambda: sampler.once(with_host=False),
        simulated=simulate is not None,
        ask_places=sampler.ask_places,
    )
    recorded = recording(settings, sampler, direct=True)
    grace = settings.work_grace_seconds
    return DeviceTaker(sampler, availability, recorded, grace, book)


def _notify(settings: Settings, folder: JobsFolder, numbers: Sequence[int]) -> None:
    from andon.app.messages.jobs import send_job_message

    send_job_message(settings, folder, numbers)


def _lock(folder: JobsFolder) -> int | None:
    for _ in range(LOCK_TRIES):
        lock = lock_dispatcher(folder)
        if lock is not None:
            return lock
        time.sleep(LOCK_SECONDS)
    return None


def _announce(lock: int) -> None:
    """Writes the pid for people who look into the folder; only the lock matters."""
    me = myself()
    identity = {"pid": me.pid, "start": me.started_ticks, "boot": pid_scope().boot}
    os.ftruncate(lock, 0)
    os.pwrite(lock, dumps(identity).encode() + b"\n", 0)


def _leave(number: int, frame: object) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
