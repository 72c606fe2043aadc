"""Fills the stores and the book of the demo: a day of history, alerts and a cordon."""

import time
from collections.abc import Iterator, Sequence

from andon.alerts.rules import commands
from andon.alerts.rules.persistence import dump
from andon.alerts.rules.state import EMPTY, AlertState
from andon.alerts.rules.state_machine import step
from andon.drivers.sim.rules import behaviour
from andon.drivers.sim.rules.demo import CORDONED, HOT, HOUR_SECONDS, ME, Demo
from andon.drivers.sim.rules.scenarios import DEMO_DEVICES
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.observation import Moment, Observation
from andon.history.rules import demo as day
from andon.history.rules.seeding import specimens
from andon.host.clock import boot_seconds
from andon.host.machine_id import boot_id
from andon.host.processes.kin import pid_scope
from andon.leases.rules.occupants import BLANK, page_of
from andon.model.alert import Alert, Phase, Silence
from andon.model.device import DeviceStatus, Snapshot, State
from andon.model.lease import Cordon
from andon.ports import AlertStore, Store
from andon.settings.resolution import Settings
from andon.web.demo.book import DemoBook, entry_of
from andon.web.demo.runs import NODE

STEP_SECONDS = 30.0
STARTING_SECONDS = 2.0
WATCHED: tuple[tuple[float, float, Sequence[int]], ...] = (
    (-8.05, -7.35, (HOT,)),
    (-0.6, 0.0, range(DEMO_DEVICES)),
)
"""The hours and GPUs of which the alerts are judged: an earlier heat, and the last ones."""


def new_demo(settings: Settings) -> Demo:
    devices = specimens(DEMO_DEVICES, settings.simulate_seed, settings.simulate_scenario)
    return Demo(settings.simulate_seed, time.time(), devices)


def cordon_one(demo: Demo) -> None:
    reason, since = "a fan is replaced on Thursday", demo.origin - 2 * HOUR_SECONDS
    DemoBook(demo).cordon(Cordon(demo.devices[CORDONED].uuid, since, ME, reason))


def fill_history(store: Store, demo: Demo) -> None:
    facts, packed = [behaviour.describe(one) for one in demo.devices], time.time()
    store.load(facts, day.blocks(demo, packed))
    now = time.time() + STARTING_SECONDS  # until the server records them
    store.write(day.last_ticks(demo, packed, now), day.uses(demo, now))


def fill_alerts(store: AlertStore, demo: Demo, book: Rulebook) -> None:
    """Judges the snapshots as a server would, and acknowledges or silences some alerts."""
    state, ended = EMPTY, list[Alert]()
    offset = demo.origin - boot_seconds()
    for snapshot in _snapshots(demo):
        entries = tuple(entry_of(demo, work) for work in demo.running(snapshot.at))
        page = page_of(entries, snapshot.devices, {}, pid_scope(), BLANK, snapshot.at)
        seen = Observation(snapshot, leases=page.leases, sharing=page.sharing)
        result = step(state, seen, Moment(snapshot.at, snapshot.at - offset), book)
        state = result.state
        ended += [one for one in result.changed if one.state is Phase.RESOLVED and one.fired]
    state = _handled(state, demo, Moment(demo.origin, demo.origin - offset))
    saved = {
        "alerting": {**dump(state), "boot": boot_id()},
        "informed": {},
        "accepted": {},
        "elsewhere": [],
    }
    store.save(saved, [*ended, *commands.current(state)], ())


def _handled(state: AlertState, demo: Demo, moment: Moment) -> AlertState:
    """Returns the state after dora acknowledged the lost GPU and alice silenced her limit."""
    for alert in commands.current(state):
        if alert.rule == "device_lost":
            note = "reseating it this afternoon"
            state = commands.acknowledge(state, alert.id, "dora", note, moment).state
    silence = Silence(
        "lab1", demo.origin + 4 * HOUR_SECONDS, rule="throttle_power", by="alice",
        note="the limit is lowered on purpose", since=demo.origin - HOUR_SECONDS,
    )  # fmt: skip
    return commands.silence(state, silence, moment).state


def _snapshots(demo: Demo) -> Iterator[Snapshot]:
    for begin, end, indices in WATCHED:
        for number in range(int((end - begin) * HOUR_SECONDS / STEP_SECONDS)):
            at = demo.origin + begin * HOUR_SECONDS + number * STEP_SECONDS
            yield Snapshot(NODE, at, True, devices=tuple(_status(demo, i, at) for i in indices))


def _status(demo: Demo, index: int, at: float) -> DeviceStatus:
    one = demo.device(index, at)
    if demo.is_lost(index, at):
        lost = "the simulated device has fallen off the bus"
        return DeviceStatus(behaviour.describe(one), State.LOST, demo.lost_at, lost)
    return DeviceStatus(
        behaviour.describe(one), State.OK, demo.origin - 26 * HOUR_SECONDS,
        sample=behaviour.sample(one, at), processes=behaviour.processes(one, at),
    )  # fmt: skip
