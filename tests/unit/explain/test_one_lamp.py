"""Status, watch, why, the board, the alerts and the verdict agree about every device."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from andon.alerts.rules.alerts_from_sample import alerts_from_sample
from andon.alerts.rules.commands import current
from andon.alerts.rules.lamps import LampBoard, board
from andon.alerts.rules.lamps_from_sample import lamps_from_sample
from andon.alerts.rules.listing import entries, is_clearing, is_listed, shown_level
from andon.cli.show import cells
from andon.cli.show.entries import lit_entries
from andon.cli.show.render import render_status
from andon.cli.show.text import painted
from andon.cli.show.watch import Stream
from andon.cli.show.why import answer, answer_to_json, render_why
from andon.explain.conditions.catalogue import BY_NAME, DEFAULTS, RULES_OF
from andon.explain.conditions.condition import severity
from andon.explain.conditions.rulebook import Rulebook
from andon.leases.rules.capacity import Surroundings, capacities
from andon.leases.rules.verdict import verdicts
from andon.model.alert import Alert, Level, Phase
from andon.model.device import DeviceStatus, Limits, Process, Snapshot, State
from andon.model.lamp import Lamp
from andon.units import GIB
from tests.situations.table import SITUATIONS
from tests.support.generated_nodes import nodes
from tests.support.rows import rows
from tests.support.snapshots import AT, farm, h200
from tests.timelines.grammar import timelines
from tests.timelines.playing import Player, looks_at_most

SHAPES = {"✕": Lamp.RED, "▲": Lamp.AMBER, "●": Lamp.GREEN, "◌": Lamp.GREY, "○": Lamp.GREY,
          "◎": Lamp.RING}  # fmt: skip
SHORT = [one for one in timelines() if looks_at_most(one) <= 40][::3]  # of every kind
UNHEALTHY = {"lost", "stale", "ecc", "broken"}
"""Verdicts that mean that the device itself is not well."""
FINE = {"idle", "light", "moderate", "heavy", "fine"}

Seen = Sequence[Snapshot]


def assert_agreement(past: Seen, alerts: Sequence[Alert], book: Rulebook) -> None:
    """Every surface shows what the lamps of these alerts say."""
    seen = past[-1]
    lit = board(seen, alerts)
    lamps = {one.uuid: one.lamp for one in lit.devices}
    assert status_lamps(seen, lit) == lamps
    assert watch_lamps(seen, lit) == lamps
    assert why_lamps(past, lit, book) == lamps
    for status in seen.devices:
        assert_listed(status, [a for a in alerts if a.subject == status.device.uuid], lit)
    assert_verdicts(seen, lit)


def status_lamps(seen: Snapshot, lit: LampBoard) -> dict[str, Lamp]:
    lines = painted(render_status(seen, 200, now=seen.at, lit=lit.devices)).splitlines()[2:]
    return marks(seen, lines)


def watch_lamps(seen: Snapshot, lit: LampBoard) -> dict[str, Lamp]:
    lines = Stream(200, 50, color=False).tick(seen, lit.devices).splitlines()
    return marks(seen, [line for line in lines if line[:1] in SHAPES])


def marks(seen: Snapshot, lines: Sequence[str]) -> dict[str, Lamp]:
    shown = lit_entries(seen)
    rows = zip(shown, lines[: len(shown)], strict=True)
    return {entry.status.device.uuid: SHAPES[line[0]] for entry, line in rows}


def why_lamps(past: Seen, lit: LampBoard, book: Rulebook) -> dict[str, Lamp]:
    found = answer(past, None, book, lit.devices)
    text = painted(render_why(found, 200))
    drawn = [SHAPES[line[0]] for line in text.splitlines() if line[:2].strip() in SHAPES]
    explained = answer_to_json(found)["devices"]
    for one in explained:  # `why` says OK only under a green lamp
        is_well = one["reasons"][0]["code"] == "healthy"
        assert not is_well or one["lamp"] == "green" or one["status"] == "asleep", one
    said = {one["uuid"]: Lamp(one["lamp"]) for one in explained}
    assert sorted(drawn) == sorted(said.values())
    if found.chosen is not None:
        assert drawn[0] is said[found.chosen]
        urgency = {one.uuid: one.urgency for one in lit.devices}
        assert urgency[found.chosen] == max(urgency.values())
    return said


def assert_listed(status: DeviceStatus, mine: Sequence[Alert], lit: LampBoard) -> None:
    """The lamp is that of the worst alert, of the state, or of what a reading shows."""
    lamp = next(one for one in lit.devices if one.uuid == status.device.uuid)
    fires = [a for a in mine if a.state is Phase.FIRING and is_listed(a) and not is_clearing(a)]
    level = max(map(shown_level, fires), key=lambda one: one.rank, default=None)
    loud = level is not None and level is not Level.INFO
    if loud:
        assert lamp.lamp.rank >= (Lamp.RED if level is Level.CRITICAL else Lamp.AMBER).rank
        shown = {shown_level(e.alert) for e in entries(mine)} | {e.level for e in entries(mine)}
        assert level in shown
    if lamp.lamp in (Lamp.AMBER, Lamp.RED):
        present = bool(status.answered and status.sample and status.sample.ecc_uncorrected)
        assert loud or present or status.state is State.LOST, lamp
    assert (lamp.status in FINE) == (lamp.lamp is Lamp.GREEN), lamp


def assert_verdicts(seen: Snapshot, lit: LampBoard) -> None:
    """What `free` withholds because of its health has no green lamp."""
    for one in verdicts(capacities(seen.devices, Surroundings()), {}):
        lamp = next(lamp for lamp in lit.devices if lamp.uuid == one.uuid)
        if one.code in UNHEALTHY:
            assert lamp.lamp is not Lamp.GREEN, (one, lamp)
        if one.code == "ecc":
            least = severity(Level.INFO, BY_NAME["ecc"])
            assert lamp.status == "memory errors" or lamp.severity > least, lamp


def assert_glance(seen: Snapshot, book: Rulebook) -> None:
    """The conditions that one look loads light the lamps that all conditions light."""
    everything = board(seen, alerts_from_sample(seen, book)).devices
    glanced = lamps_from_sample(seen, book)
    assert [replace(one, alerts=()) for one in glanced] == [
        replace(one, alerts=()) for one in everything
    ]


@pytest.mark.slow
def test_in_every_situation() -> None:
    book = Rulebook()
    for situation in SITUATIONS:
        past = situation.snapshots
        if past[-1].devices:
            with named(situation.name):
                assert_agreement(past, alerts_from_sample(past[-1], book), book)
                assert_glance(past[-1], book)


@pytest.mark.slow
@rows(
    "figures",
    [
        {"thermal_celsius": 10},
        {"thermal_margin_celsius": 50},
        {"fan_celsius": 0},
        {"clock_loss_percent": 1},
        {"clock_loss_default_limit_percent": 1},
        {"unattributed_bytes": 0, "unattributed_percent": 1},
    ],
)
def test_the_thresholds_in_force_decide_what_a_look_loads(figures: dict[str, float]) -> None:
    book = Rulebook(DEFAULTS.changed(figures))
    seen = [one.snapshots[-1] for one in SITUATIONS if one.snapshots[-1].devices]
    for snapshot in seen:
        assert_glance(snapshot, book)
    off = Rulebook(DEFAULTS.changed(figures, frozenset(RULES_OF.values())))
    assert_glance(seen[0], off)


@pytest.mark.slow
def test_at_the_end_of_timelines() -> None:
    for timeline in SHORT:
        player = Player(timeline, hurry=True)
        player.play()
        seen = player.state.snapshot
        if seen is not None and seen.devices:
            with named(timeline.name):
                assert_agreement([seen], current(player.state), player.book)
                assert_glance(seen, player.book)


@contextmanager
def named(story: str) -> Iterator[None]:
    """A failure says in which story it happened."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{story}: {error}") from error


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(nodes())
def test_whatever_the_devices_say(past: list[Snapshot]) -> None:
    if past[-1].devices:
        assert_agreement(past, alerts_from_sample(past[-1], Rulebook()), Rulebook())
        assert_glance(past[-1], Rulebook())


# The contradictions that people met.


def only(status: DeviceStatus) -> Snapshot:
    return Snapshot("n", AT, devices=(status,))


def lamp_of(status: DeviceStatus, alerts: Sequence[Alert] | None = None) -> tuple[Lamp, str]:
    found = alerts_from_sample(only(status), Rulebook()) if alerts is None else alerts
    (lamp,) = board(only(status), found).devices
    return lamp.lamp, lamp.status


def test_memory_errors_from_before_andon_came_are_amber_everywhere() -> None:
    """Board green, `andon` green, `why` a triangle, and `free` refused it."""
    broken = h200(0, 0, ecc_uncorrected=2)
    assert lamp_of(broken) == (Lamp.AMBER, "memory errors")
    assert_agreement([only(broken)], alerts_from_sample(only(broken), Rulebook()), Rulebook())


def test_they_stay_amber_after_their_alert_ended_because_the_device_stays_withheld() -> None:
    broken = h200(0, 0, ecc_uncorrected=2)
    assert lamp_of(broken, alerts=()) == (Lamp.AMBER, "memory errors")
    assert_verdicts(only(broken), board(only(broken), ()))


def test_amds_limit_lights_the_lamp_only_while_it_is_hot() -> None:
    def amd(celsius: int) -> DeviceStatus:
        status = h200(0, 0, temperature_celsius=celsius, throttle=("temperature_limit",))
        limits = Limits(slowdown_celsius=100)
        return replace(status, device=replace(status.device, vendor="amd", limits=limits))

    assert lamp_of(amd(55))[0] is Lamp.GREEN
    assert lamp_of(amd(97)) == (Lamp.AMBER, "too hot")


def test_unattributed_memory_is_amber_where_nothing_works_and_a_hint_where_something_does() -> None:
    idle = h200(0, 40, utilization_percent=0)
    assert lamp_of(idle) == (Lamp.AMBER, "memory held")
    busy = h200(0, 40, utilization_percent=60)
    assert lamp_of(busy) == (Lamp.GREEN, "moderate")
    found = answer_to_json(answer([only(busy)]))["devices"][0]["reasons"]
    assert ("unattributed_memory", False) in [(one["code"], one["problem"]) for one in found]


def test_a_hint_lights_no_lamp() -> None:
    """Starved, low occupancy, an idle notebook: said, and no trouble."""
    held = replace(
        h200(0, 30, utilization_percent=0),
        processes=(Process(7, user="bob", memory_bytes=30 * GIB, started=AT - 9000),),
    )
    later = replace(held, sample=replace(held.sample, at=AT + 90))  # type: ignore[type-var]
    past = [only(held), replace(only(later), at=AT + 90)]
    (told,) = answer_to_json(answer(past))["devices"]
    assert told["reasons"][0]["code"] == "idle_held"
    assert (told["lamp"], told["reasons"][0]["problem"]) == ("green", False)


def test_how_long_a_device_has_been_silent_decides_how_bad_it_is() -> None:
    def silent(seconds: float) -> tuple[Lamp, str]:
        return lamp_of(replace(h200(0, 0), state=State.STALE, since=AT - seconds))

    assert silent(12) == (Lamp.AMBER, "not responding")
    assert silent(3600) == (Lamp.RED, "not responding")


def test_the_shapes_and_colours_are_those_of_the_board() -> None:
    styles = {lamp: cells.LAMPS[lamp] for lamp in Lamp}
    assert styles == {
        Lamp.RED: ("✕", "bold red"),
        Lamp.AMBER: ("▲", "yellow"),
        Lamp.RING: ("◎", "yellow"),
        Lamp.GREEN: ("●", "green"),
        Lamp.GREY: ("◌", "dim"),
    }


def test_what_is_standing_fires_and_says_so() -> None:
    found = alerts_from_sample(farm(), Rulebook())
    assert {alert.state for alert in found} == {Phase.FIRING}
    assert all(alert.fires_in_seconds is None and not alert.notified for alert in found)
