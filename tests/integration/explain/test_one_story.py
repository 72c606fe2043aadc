"""One-shot commands, views and REST tell the same story of the same GPU: lamp, since, who."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.stories import PROGRAM, SCENARIOS, SURFACES, Account, Stage, played, rest

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is an ELF library"),
    pytest.mark.usefixtures("surroundings"),
]
CLOSE_SECONDS = 0.01  # times in JSON are rounded


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, library: Path) -> Iterator[Stage]:
    with played(tmp_path_factory.mktemp("story"), library) as found:
        yield found


@pytest.fixture
def surroundings(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in stage.environment.items():
        monkeypatch.setenv(name, value)


def differences(reference: Account, said: Account) -> list[str]:
    """What a surface says otherwise than REST; what it does not say is no difference."""
    found = []
    for label, one in said.items():
        name, other = SCENARIOS[int(label)].name, reference[label]
        for what in ("lamp", "who", "programs"):
            mine, its = getattr(one, what), getattr(other, what)
            if None not in (mine, its) and mine != its:
                found.append(f"{name}: {what} is {mine}, not {its}")
        apart = abs((one.since or 0.0) - (other.since or 0.0))
        if None not in (one.since, other.since) and apart > CLOSE_SECONDS:
            found.append(f"{name}: since {one.since}, not {other.since}")
    return found


@pytest.mark.parametrize("surface", SURFACES)
def test_each_surface_says_what_rest_says(stage: Stage, surface: str) -> None:
    before, said, after = rest(stage), SURFACES[surface](stage), rest(stage)
    assert before == after, "the story does not change while it is told"
    assert said, "it says something"
    assert differences(before, said) == []


def test_rest_says_what_the_scenarios_expect(stage: Stage) -> None:
    said = rest(stage)
    for scenario in SCENARIOS:
        one, wanted = said[stage.label(scenario)], scenario.expected
        assert wanted.lamp in (None, one.lamp), scenario.name
        who = frozenset({stage.user}) if wanted.who is None else wanted.who
        assert one.who == who, scenario.name
        assert one.programs in (None, frozenset({PROGRAM})), scenario.name
        assert (one.since is not None) == bool(scenario.faults), scenario.name
        assert one.since is None or one.since <= time.time()


def test_a_process_that_ended_is_named_with_the_memory_it_left(stage: Stage) -> None:
    (scenario,) = [one for one in SCENARIOS if one.ends]
    device = stage.label(scenario)
    (told,) = stage.json("why", device)["devices"]
    for reasons in (
        told["reasons"],
        stage.rest(f"/api/devices/{device}/why")["devices"][0]["reasons"],
    ):
        sentence = next(one["sentence"] for one in reasons if one["code"] == "unattributed_memory")
        assert f"{stage.user}'s {PROGRAM} held 40.0 GiB until" in sentence
        assert sentence.endswith("ago and has exited.")


def test_without_the_server_a_process_has_its_name_on_each_of_its_gpus(stage: Stage) -> None:
    """A new reader looks the name up once, and every card gets it."""
    wide = [stage.label(one) for one in SCENARIOS if one.process == "wide"]
    rows = stage.json("ps", "--fresh", *wide)["processes"]
    assert [(row["user"], row["program"]) for row in rows] == [(stage.user, PROGRAM)] * len(wide)


def test_only_a_server_knows_since_when_and_fresh_does_not_ask_it(stage: Stage) -> None:
    (place,) = [n for n, one in enumerate(SCENARIOS) if one.name == "lost"]
    told = stage.json("status")["devices"][place]
    assert (told["name"], told["last_users"]) == ("NVIDIA H200", [stage.user])
    fresh = stage.json("status", "--fresh")["devices"][place]
    assert (fresh["state"], fresh["last_users"]) == ("lost", [])
    assert fresh["since"] > told["since"]
