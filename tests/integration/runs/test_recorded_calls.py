"""Runs of a program under `andon run --simulate`: functions of every kind, and what is said."""

import re
import sys
from typing import Any

import pytest

from tests.integration.conftest import Outcome, andon
from tests.integration.leasing import records
from tests.support.homes import own_folders

PROGRAM = """
import asyncio, contextlib, andon

def inside(name):
    with andon.run(name, quiet=True):
        pass

@andon.recorded
def items():
    sent = yield "first"
    inside("in items")
    try:
        yield sent
    except ValueError as error:
        yield f"caught {error}"
    return "the end"

def consumer():
    print("returned", (yield from items()))

steps = consumer()
print(next(steps))
inside("between items")
print(steps.send("second"))
print(steps.throw(ValueError("mine")))
next(steps, None)

@andon.recorded(quiet=True)
def endless():
    while True:
        yield 1

for one in endless():
    break

@andon.recorded("failing", quiet=True)
def failing():
    yield 1
    raise ValueError("no more")

with contextlib.suppress(ValueError):
    list(failing())

@andon.recorded(quiet=True)
async def waited():
    inside("in waited")
    return 7

@andon.recorded(quiet=True)
async def stream():
    got = yield 1
    inside("in stream")
    yield got

async def main():
    print(await waited())
    async with contextlib.aclosing(stream()) as numbers:
        print(await anext(numbers), await numbers.asend("two"))
        async for _ in numbers:
            pass

asyncio.run(main())
with andon.GpuMonitorCallback(name="callback") as monitor:
    monitor.step(loss=0.5)
"""


@pytest.fixture(scope="module")
def done(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Outcome, dict[str, list[dict[str, Any]]]]:
    folder = tmp_path_factory.mktemp("recorded")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**own_folders(folder), "HOME": "/nonexistent"}.items():
            patch.setenv(name, value)
        patch.delenv("ANDON_SIMULATE_SCENARIO", raising=False)
        words = ("--simulate", "8", "--gpus", "1", "--name", "all")
        found = andon("run", *words, "--", sys.executable, "-c", PROGRAM)
    assert found.code == 0, found.err
    return found, {record[0]["name"]: record for record in records(folder / "state")}


Made = tuple[Outcome, dict[str, list[dict[str, Any]]]]


def test_a_generator_is_recorded_to_its_end_and_works_as_before(done: Made) -> None:
    said, found = done
    assert said.out.splitlines() == [
        "first", "second", "caught mine", "returned the end", "7", "1 two",
    ]  # fmt: skip
    ends = {name: record[-1]["state"] for name, record in found.items()}
    others = dict.fromkeys(ends, "succeeded")
    assert ends == {**others, "endless": "stopped", "failing": "failed"}
    spans = {name: (record[0]["at"], record[-1]["at"]) for name, record in found.items()}
    for outer, inner in (("items", "in items"), ("items", "between items"),
                         ("waited", "in waited"), ("stream", "in stream")):  # fmt: skip
        assert spans[outer][0] < spans[inner][0] < spans[inner][1] < spans[outer][1], inner


def test_what_happens_between_two_items_is_not_part_of_the_generator(done: Made) -> None:
    begins = {name: record[0] for name, record in done[1].items()}
    names = {begin["id"]: name for name, begin in begins.items()}
    parents = {name: names.get(begin["parent"]) for name, begin in begins.items()}
    assert parents["in items"] == "items"
    assert parents["in waited"] == "waited"
    assert parents["in stream"] == "stream"
    for name in ("items", "between items", "waited", "stream", "callback"):
        assert parents[name] == "all", name


def gpu_of(said: Outcome) -> str:
    """That of the lease; which one is free depends on the time."""
    found = re.search(r"^andon: running on GPU (\d)", said.err, re.MULTILINE)
    assert found is not None
    return found[1]


def test_each_run_that_is_not_quiet_says_once_how_to_read_its_report(done: Made) -> None:
    said, _ = done
    told = [line for line in said.err.splitlines() if ": andon runs report " in line]
    named = [re.search(r"; run (\w+): andon runs report \w{8}$", line) for line in told]
    assert [one and one[1] for one in named] == ["items", "callback", "all"]
    found = [re.match(r"andon: .* on (GPU \d): mean ", line) for line in told]
    assert {one and one[1] for one in found} == {f"GPU {gpu_of(said)}"}


def test_a_program_sees_the_simulated_devices_of_its_lease(done: Made) -> None:
    begins = {name: record[0] for name, record in done[1].items()}
    lease = [device["uuid"] for device in begins["all"]["devices"]]
    assert len(lease) == 1
    for name, begin in begins.items():
        assert begin["simulated"], name
        assert [device["uuid"] for device in begin["devices"]] == lease, name
    [detail] = begins["items"]["candidates"]
    assert detail["uuid"] == lease[0]
    assert detail["memory_free_mb"] > 0
    assert detail["utilization_percent"] is not None
    assert 0 <= detail["availability_score"] <= 1
