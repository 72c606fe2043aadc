"""What a hot device's alert says: the limit that is reached, its level now, and what to do."""

from msgspec.structs import replace

from andon.alerts.rules.commands import current
from andon.alerts.rules.listing import is_clearing
from andon.alerts.rules.state import EMPTY
from andon.alerts.rules.state_machine import step
from andon.explain.conditions.finding import CALM, HOLDS, Finding
from andon.explain.conditions.heat.limits import NOT_THROTTLED
from andon.explain.conditions.heat.phrases import lower_limit
from andon.explain.conditions.heat.thermal import describe
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.observation import Moment, Observation
from andon.model.alert import Alert, Level, Phase
from andon.model.device import Device, Limits, Sample, Snapshot
from tests.support.rows import rows
from tests.support.snapshots import AT, h200
from tests.support.views import facts


@rows(
    "celsius, limit, words",
    [
        (82, 97.0, "82 °C (alert above 80 °C, slows down at 97 °C)"),
        (96, 97.0, "96 °C (alert above 80 °C, slows down at 97 °C)"),
        (97, 97.0, "97 °C (slows down at 97 °C)"),
        (99, 97.0, "99 °C (slows down at 97 °C)"),
        (91, None, "91 °C (alert above 80 °C)"),
    ],
)
def test_the_limit_that_is_reached_is_named(
    celsius: float, limit: float | None, words: str
) -> None:
    """ "82 °C (slowdown threshold 97 °C)" named a limit that is 15 degrees away."""
    found = Finding((HOLDS, CALM), celsius, 80.0, limit, NOT_THROTTLED)
    assert describe(facts(found)).text.text == f"GPU 0 is too hot: {words}"


@rows(
    "vendor, now, default, words",
    [
        ("nvidia", 700.0, 700.0, ": sudo nvidia-smi -i 2 -pl 550"),
        ("nvidia", 500.0, 700.0, ": sudo nvidia-smi -i 2 -pl 400"),  # lower than it is
        ("nvidia", None, 450.0, ": sudo nvidia-smi -i 2 -pl 350"),
        ("nvidia", 350.0, 350.0, ": sudo nvidia-smi -i 2 -pl 280"),
        ("nvidia", 70.0, 70.0, ""),  # a T4 accepts 60 W at least
        ("nvidia", None, None, ""),
        ("amd", 700.0, 700.0, ""),
    ],
)
def test_the_advice_is_a_command_with_a_number_that_the_card_accepts(
    vendor: str, now: float | None, default: float | None, words: str
) -> None:
    device = Device("GPU-2", 2, vendor, "H200", limits=Limits(power_default_watts=default))
    found = lower_limit(device, Sample(AT, power_limit_watts=now))
    assert found == f"lower its power limit{words}"


def test_an_instance_has_no_power_limit_of_its_own() -> None:
    part = Device("MIG-1", 2, "nvidia", "1g", parent="GPU-2")
    assert lower_limit(part, Sample(AT, power_limit_watts=700.0)) == "lower its power limit"


def played(*readings: tuple[float, int]) -> Alert:
    """The alert after these seconds at these temperatures; it slows down at 89."""
    state, at = EMPTY, 0.0
    for seconds, celsius in readings:
        for _ in range(int(seconds // 10)):
            status = h200(0, 0, temperature_celsius=celsius)
            status = replace(
                status, device=replace(status.device, limits=Limits(slowdown_celsius=89))
            )
            seen = Observation(Snapshot("n", AT + at, devices=(status,)))
            state = step(state, seen, Moment(AT + at, at), Rulebook()).state
            at += 10
    return next(one for one in current(state) if one.rule == "thermal")


@rows(
    "readings, level, clearing",
    [
        ([(100, 95)], Level.CRITICAL, False),
        ([(100, 95), (10, 82)], Level.WARNING, False),  # red at 82 °C
        ([(40, 95), (10, 82)], Level.WARNING, False),  # the warning has not held for its time
        ([(100, 95), (10, 87)], Level.CRITICAL, False),  # not three degrees below
        ([(100, 95), (10, 82), (10, 95)], Level.CRITICAL, False),  # back: at once
        ([(100, 95), (10, 70)], Level.WARNING, True),
        ([(100, 85), (10, 78)], Level.WARNING, False),  # between the two thresholds
        ([(100, 85), (10, 75)], Level.WARNING, True),
        ([(100, 82), (10, 95)], Level.WARNING, False),  # a spike has to last
    ],
)
def test_the_level_that_people_see_follows_the_reading(
    readings: list[tuple[float, int]], level: Level, clearing: bool
) -> None:
    alert = played(*readings)
    assert (alert.state, alert.level, is_clearing(alert)) == (Phase.FIRING, level, clearing)
    assert (alert.clears_in_seconds is not None) == clearing
    assert ("was too hot" in alert.message) == (clearing or readings[-1][1] < 80)
