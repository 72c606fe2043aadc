"""Whoever is killed while they submit has one job or none, and is shown which."""

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from andon.cli.entry import main
from tests.integration.jobs.desks import HERE, LAB, Desk, opened_desk
from tests.support.killed_at import killed_at
from tests.support.old_notes import age_notes

pytestmark = [pytest.mark.process, pytest.mark.timeout(150)]

MOST_STEPS = 60  # a submission that has more of them is another
NOT_SENT = "it did not reach lab: submit it again"


@pytest.fixture(params=[HERE, LAB])
def desk(request: pytest.FixtureRequest) -> Iterator[Desk]:
    with opened_desk(request.param, request) as found:
        found.fine("jobs", "pause")  # those of the queue stay as they are submitted
        yield found


class Submitted:
    """`andon submit` in a process that may be killed, and what it printed."""

    def __init__(self, desk: Desk, name: str) -> None:
        self._desk, self._out = desk, desk.folder / f"{name}.out"
        unique = ("--unique",) if desk.name == HERE else ()
        self.words = ("submit", *desk.on, *unique, "--name", name, "--", "sleep", "600")

    def __call__(self) -> None:
        os.chdir(self._desk.folder)
        out = os.open(self._out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(out, 1)
        os.dup2(out, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        if self._desk.name == LAB:
            sys.path.insert(0, str(self._desk.folder / "site"))
        sys.argv = ["andon", *self.words]
        main()

    @property
    def label(self) -> str:
        return self._out.read_text().strip() if self._out.exists() else ""


def listed(desk: Desk, name: str) -> list[dict[str, Any]]:
    done = desk.andon("jobs", "--all", "--json")
    assert (done.code, done.err) == (0, "")
    return [one for one in json.loads(done.out)["jobs"] if one["name"] == name]


def taken(desk: Desk, name: str) -> int:
    """How many jobs of a name the desk itself has."""
    if desk.lab is not None:
        return sum(one.name == name for one in desk.lab.jobs(0.0))
    return sum(f'"name":"{name}"' in one.read_text() for one in desk.folder.rglob("job.json"))


def test_a_submission_that_is_killed_at_any_step_is_seen_once_or_not_at_all(desk: Desk) -> None:
    seen = set()
    for step in range(1, MOST_STEPS):
        name = f"k{step}"
        submitted = Submitted(desk, name)
        was_killed = killed_at(step, submitted)
        age_notes()  # long enough for a request that was on its way
        found = listed(desk, name)
        assert len(found) <= 1, step
        lost = [one for one in found if one["state"] == "lost"]
        assert all(one["reason"] == NOT_SENT for one in lost), step
        assert taken(desk, name) == len(found) - len(lost), step
        if submitted.label or not was_killed:
            assert [one["label"] for one in found] == [submitted.label], step
        seen.add("lost" if lost else "taken" if found else "nothing")
        if desk.name == HERE or lost or not found:  # who does as they are told has one job
            desk.fine(*submitted.words)
        assert taken(desk, name) == 1, step
        if not was_killed:
            break
    assert not was_killed
    assert seen == {"nothing", "taken"} | ({"lost"} if desk.name == LAB else set())
