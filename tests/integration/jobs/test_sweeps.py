"""A sweep from `andon submit --param` to its table, with a real dispatcher and real commands."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.cli.commands.jobs.submitted import expected_text
from andon.cli.terminal import Choices
from andon.jobs.queue import Queue
from andon.model.job.facts import JobState
from tests.integration.conftest import andon
from tests.integration.queueing import cleaned, kill_dispatcher, settle, until_settled
from tests.support.homes import own_folders
from tests.support.listening import listener
from tests.support.waiting import wait_for

pytestmark = pytest.mark.timeout(150)
TRAIN = """
import os, sys, time
lr, seed = sys.argv[1:3]
open(os.environ["MARKS"], "a").write(f"{lr} {seed}\\n")
for step in range(3):
    print(f"step {step} loss={float(lr) * (3 - step) + int(seed) / 100}", flush=True)
if (lr, seed) == ("0.1", "2"):
    sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
"""


class Sweep:
    def __init__(self, queue: Queue, place: Path, told: list[str]) -> None:
        self.queue, self.place, self.told = queue, place, told


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sweep]:
    """Six jobs of one sweep that have ended; their dispatcher was killed again and again."""
    place = tmp_path_factory.mktemp("sweep")
    with pytest.MonkeyPatch.context() as monkeypatch, listener() as heard:
        folder = settle(monkeypatch, place)
        monkeypatch.setenv("MARKS", str(place / "marks"))
        config = place / "andon.toml"
        url = f"json://127.0.0.1:{heard.server_address[1]}/"
        config.write_text(f'[[alerts.notifier]]\nname = "hook"\nkind = "apprise"\nurl = "{url}"\n')
        monkeypatch.setenv("ANDON_CONFIG", str(config))
        (place / "train.py").write_text(TRAIN)
        with cleaned(folder):
            made = andon(
                "submit", "--simulate", "2", "--param", "lr=0.1,0.01", "--param", "seed=1..3",
                "--name", "tune", "--metric", r"loss=([\d.]+)", "--notify", "end",
                "--", sys.executable, str(place / "train.py"), "{lr}", "{seed}",
            )  # fmt: skip
            assert made.code == 0, made.err
            assert made.out.split() == ["1", "2", "3", "4", "5", "6"]
            for _ in range(20):
                if all(one.state.is_settled for one in Queue(folder).statuses.values()):
                    break
                kill_dispatcher(folder)
                andon("jobs")
            queue = until_settled(folder)
            yield Sweep(queue, place, heard.heard)


@pytest.fixture(autouse=True)
def _its_folders(swept: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of a test see the queue of the sweep."""
    for name, value in own_folders(swept.place).items():
        monkeypatch.setenv(name, value)


def test_each_combination_runs_once_whoever_kills_the_dispatcher(swept: Sweep) -> None:
    lines = sorted((swept.place / "marks").read_text().split("\n")[:-1])
    assert lines == sorted(f"{lr} {seed}" for lr in ("0.1", "0.01") for seed in (1, 2, 3))
    states = [one.state for one in swept.queue.statuses.values()]
    assert states.count(JobState.SUCCEEDED) == 5
    assert [view.group for view in swept.queue.views()] == ["tune"] * 6


def test_the_table_has_parameters_figures_and_the_failure(swept: Sweep) -> None:
    said = andon("runs", "compare", "--group", "tune", "--by", "loss", "--json")
    assert said.code == 0, said.err
    found = said.json()
    best, other = found["rows"]
    assert best["params"] == {"lr": 0.01}
    assert best["is_best"]
    assert best["values"]["log.loss"]["mean"] == pytest.approx(0.03)
    assert (other["succeeded"], other["others"]) == (2, {"device_out_of_memory": 1})


def test_every_printed_figure_is_in_the_record(swept: Sweep) -> None:
    view = swept.queue.views([4])[0]
    assert view.record is not None
    lines = [json.loads(line) for line in Path(view.record).read_text().splitlines()]
    logged = [line["values"]["loss"] for line in lines if line["event"] == "log"]
    once = list(dict.fromkeys(logged))  # a dispatcher that is killed may leave some twice
    assert once == pytest.approx([0.04, 0.03, 0.02])


def test_a_group_is_a_job_word(swept: Sweep) -> None:
    shown = andon("jobs", "show", "tune", "--json").json()
    assert len(shown["jobs"]) == 6
    assert andon("jobs", "wait", "tune").code == 1  # the worst of them
    assert len(andon("jobs", "--group", "tune", "--json").json()["jobs"]) == 6
    assert andon("jobs", "--group", "none").out.startswith("no such jobs;")
    logs = andon("logs", "tune").out
    assert logs.count("==> job") == 6
    assert "==> job 1 lr=0.1 seed=1 <==" in logs


def test_the_end_of_a_group_is_notified_as_one(swept: Sweep) -> None:
    """At least once: a dispatcher may have been killed while it sent the message."""
    wait_for(lambda: any("group tune" in body for body in swept.told))
    assert not [body for body in swept.told if "Job 1 " in body]


def test_a_submission_says_how_long_it_will_take(swept: Sweep) -> None:
    """By the earlier runs of that name, on the GPUs that there are."""
    made = [facts.spec for facts in swept.queue.jobs.values()]
    said = expected_text(Choices(simulate=2), [replace(one, simulate=2) for one in made])
    assert re.fullmatch(r" · about .* on 2 GPUs, from 5 runs", said)
    assert expected_text(Choices(), [replace(made[0], name="other")]) == ""
