"""No name that another user chose reaches the terminal of `andon top` as a command."""

import re
from enum import Enum
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import fields, replace

from andon.explain.evidence.reasons import Reason
from andon.model.job.facts import JobState, JobView
from andon.model.run.record import RunKind, RunRow, RunState
from andon.tui.scene import ProcessEnvironment
from andon.tui.screen import compose
from andon.tui.state import ProcessChoice, TopView
from tests.support.snapshots import faults, office
from tests.support.top_scenes import frame_of

HOSTILE = "\x1b]0;x\x07\x1b[2J\x9b31m\r\n\u202e\u2066\x7f\x00"
SIGNS = "\x1b\x07\x9b\r\n\u202e\u2066\x7f\x00"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
KEPT = {"uuid", "vendor", "source", "device", "code", "subject", "rule"}  # keys, not texts


def spoiled(value: Any, name: str = "") -> Any:
    """The same with hostile signs at the end of every text."""
    if isinstance(value, Enum) or name in KEPT:
        return value
    if isinstance(value, str):
        return value + HOSTILE
    if isinstance(value, Struct):
        made = {one.name: spoiled(getattr(value, one.name), one.name) for one in fields(value)}
        return replace(value, **{k: v for k, v in made.items() if v != getattr(value, k)})
    if isinstance(value, tuple):
        return tuple(spoiled(one, name) for one in value)
    if isinstance(value, dict):
        return {key: spoiled(one, str(key)) for key, one in value.items()}
    return value


@pytest.mark.slow
def test_no_name_on_any_page_is_obeyed_by_the_terminal() -> None:
    job = JobView(3, "3", "train", JobState.WAITING, "x", "/data", "alice", 1e9, "2", reason="y",
                  devices=("0",))  # fmt: skip
    run = RunRow("bcdfghjk", "train", RunKind.COMMAND, RunState.RUNNING, "node", 1e9, "/p",
                 user="bob", command="x", message="y", tags=("t",), note="n")  # fmt: skip
    reason = Reason("hot", 90.0, 0.9, "it is hot")
    wrong: list[str] = []
    for snapshot in (office(), faults()):
        frame = frame_of(snapshot, 160, 60)
        known = frame.scene
        scene = replace(
            known,
            snapshot=spoiled(known.snapshot), entries=spoiled(known.entries),
            alerts=spoiled(known.alerts), leases=spoiled(known.leases),
            jobs=(spoiled(job),), runs=(spoiled(run),), why=(spoiled(reason),),
            why_device=frame.state.device, me="alice" + HOSTILE, source="http://x" + HOSTILE,
            environment=ProcessEnvironment(1, (("A" + HOSTILE, "b" + HOSTILE),), ("C" + HOSTILE,)),
            notes=dict.fromkeys(("runs", "jobs", "leases", "alerts"), HOSTILE),
        )  # fmt: skip
        for view in TopView:
            for tree in (False, True):
                state = replace(frame.state, view=view, processes=ProcessChoice(tree=tree))
                page = compose(replace(frame, scene=scene, state=state))
                for line in page.lines:
                    painted = COLOURS.sub("", line.paint(True))
                    if any(sign in painted for sign in SIGNS):
                        wrong.append(f"{view}: {painted!r}")
    assert not wrong, "\n".join(wrong[:20])
