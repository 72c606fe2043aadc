"""Fills a state folder with a simulated lab: a day of history, alerts, a cordon and runs."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

from msgspec import Struct

from andon.alerts.rules import commands
from andon.alerts.rules.persistence import dump
from andon.alerts.rules.state import EMPTY, AlertState
from andon.alerts.rules.state_machine import step
from andon.app.alerts import open_alert_store
from andon.app.history import open_store
from andon.app.runs import open_run_index
from andon.app.thresholds import rulebook
from andon.drivers.sim.rules import behaviour
from andon.drivers.sim.rules.lab import (
    CORDONED,
    HOT,
    HOUR_SECONDS,
    ME,
    Lab,
)
from andon.drivers.sim.rules.scenarios import LAB_DEVICES
from andon.explain.conditions.observation import Moment, Observation
from andon.history.rules import lab as day
from andon.history.rules.seeding import specimens
from andon.host.clock import boot_seconds
from andon.host.files import make_private
from andon.host.machine_id import boot_id
from andon.host.processes.kin import here
from andon.host.state.user_folder import runs_folder
from andon.leases.book.lease_book import Book
from andon.leases.rules.occupants import BLANK, page_of
from andon.model.alert import Alert, Phase, Silence
from andon.model.device import DeviceStatus, Host, Snapshot, State
from andon.model.lease import Cordon
from andon.runs.index import RunFinder
from andon.settings.resolution import Settings
from andon.web.lab.book import LabBook, entry_of, open_book
from andon.web.lab.jobs import LabJobs, LabUsers
from andon.web.lab.runs import NODE, LabFinder, LabRuns

STEP_SECONDS = 30.0
STARTING_SECONDS = 2.0
WATCHED: tuple[tuple[float, float, Sequence[int]], ...] = (
    (-8.05, -7.35, (HOT,)),
    (-0.6, 0.0, range(LAB_DEVICES)),
)
"""The hours and GPUs of which the alerts are judged: an earlier heat, and the last ones."""


class OpenLab(Struct, frozen=True):
    """The parts of a server that come from the lab."""

    lab: Lab
    jobs: LabJobs
    users: LabUsers
    runs: LabRuns

    def read(self) -> Host:
        """Returns the values of the lab's machine: those of this one are not shown as its own."""
        return self.lab.host(time.time())

    def open_finder(self) -> RunFinder:
        return LabFinder(open_run_index(), runs_folder())

    @property
    def open_book(self) -> Callable[..., Book]:
        return open_book(self.lab, self.jobs.queue)


def open_lab(settings: Settings) -> OpenLab:
    """Makes the lab and fills the stores of the settings, which must be new, up to now."""
    now = time.time()
    devices = specimens(LAB_DEVICES, settings.simulate_seed, settings.simulate_scenario)
    lab = Lab(settings.simulate_seed, now, devices)
    _fill_alerts(settings, lab)
    reason = "a fan is replaced on Thursday"
    cordon = Cordon(devices[CORDONED].uuid, now - 2 * HOUR_SECONDS, ME, reason)
    LabBook(lab).cordon(cordon)
    folder = runs_folder()
    make_private(folder)
    runs = LabRuns(lab, folder)
    runs.write(now)
    with closing(open_store(settings)) as store:
        facts, now = [behaviour.describe(one) for one in devices], time.time()
        store.load(facts, day.blocks(lab, now))
        now = time.time() + STARTING_SECONDS  # until the server records them
        store.write(day.last_ticks(lab, now), day.uses(lab, now))
    return OpenLab(lab, LabJobs(lab), LabUsers(lab), runs)


def _fill_alerts(settings: Settings, lab: Lab) -> None:
    """Judges the snapshots as a server would have done, and handles some of what it found."""
    state, ended = EMPTY, list[Alert]()
    book, offset = rulebook(settings), lab.origin - boot_seconds()
    for snapshot in _snapshots(lab):
        entries = tuple(entry_of(lab, work) for work in lab.running(snapshot.at))
        page = page_of(entries, snapshot.devices, {}, here(), BLANK, snapshot.at)
        seen = Observation(snapshot, leases=page.leases, sharing=page.sharing)
        result = step(state, seen, Moment(snapshot.at, snapshot.at - offset), book)
        state = result.state
        ended += [one for one in result.changed if one.state is Phase.RESOLVED and one.fired]
    state = _handled(state, lab, Moment(lab.origin, lab.origin - offset))
    saved = {
        "alerting": {**dump(state), "boot": boot_id()},
        "informed": {},
        "accepted": {},
        "elsewhere": [],
    }
    with closing(open_alert_store(settings)) as store:
        store.save(saved, [*ended, *commands.current(state)], ())


def _handled(state: AlertState, lab: Lab, moment: Moment) -> AlertState:
    """Returns the state after dora acknowledged the lost GPU and alice silenced her limit."""
    for alert in commands.current(state):
        if alert.rule == "device_lost":
            note = "reseating it this afternoon"
            state = commands.acknowledge(state, alert.id, "dora", note, moment).state
    silence = Silence(
        "lab1", lab.origin + 4 * HOUR_SECONDS, rule="throttle_power", by="alice",
        note="the limit is lowered on purpose", since=lab.origin - HOUR_SECONDS,
    )  # fmt: skip
    return commands.silence(state, silence, moment).state


def _snapshots(lab: Lab) -> Iterator[Snapshot]:
    for begin, end, indices in WATCHED:
        for number in range(int((end - begin) * HOUR_SECONDS / STEP_SECONDS)):
            at = lab.origin + begin * HOUR_SECONDS + number * STEP_SECONDS
            yield Snapshot(NODE, at, True, devices=tuple(_status(lab, i, at) for i in indices))


def _status(lab: Lab, index: int, at: float) -> DeviceStatus:
    one = lab.device(index, at)
    if lab.is_lost(index, at):
        lost = "the simulated device has fallen off the bus"
        return DeviceStatus(behaviour.describe(one), State.LOST, lab.lost_at, lost)
    return DeviceStatus(
        behaviour.describe(one), State.OK, lab.origin - 26 * HOUR_SECONDS,
        sample=behaviour.sample(one, at), processes=behaviour.processes(one, at),
    )  # fmt: skip
