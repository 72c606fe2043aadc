"""Whoever takes jobs, as a person sees them: this machine's queue, a fake cluster and a Slurm."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from andon.testing.fake_cluster import FakeCluster, PlayedNode
from tests.integration.parts import wait_until
from tests.integration.queueing import cleaned, settle
from tests.integration.slurm import Slurm
from tests.standin import StandIn
from tests.support.third_party import PACKAGE

HERE, LAB, SLURM = "here", "lab", "slurm"
GPUS = 8
UNKNOWN = "999999"
SECONDS = 90
LOOKS = 8


class Done(Struct, frozen=True):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


class Desk:
    """Commands of a person whose jobs go to one place; `lab` is the cluster, where it is played."""

    def __init__(self, name: str, folder: Path, env: dict[str, str]) -> None:
        self.name, self.folder, self.env = name, folder, env
        self.prefix = "" if name == HERE else f"{name}:"
        self.on = ("--on", name)
        self.lab: FakeCluster | None = None

    @property
    def unknown(self) -> str:
        return self.prefix + UNKNOWN

    def forgetful(self) -> dict[str, str]:
        """Variables with which `squeue` leaves out the numbers in the file `forgotten`, as Slurm
        does some minutes after the end."""
        program = self.folder / "bin" / "squeue"
        program.parent.mkdir(exist_ok=True)
        (self.folder / "forgotten").touch()
        lines = f'{shutil.which("squeue")} "$@" | grep -v -f {self.folder / "forgotten"}\n:\n'
        program.write_text(f"#!/bin/sh\n{lines}")
        program.chmod(0o755)
        return {"PATH": f"{program.parent}:{os.environ['PATH']}"}

    def start(self, *words: str, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "andon.cli", *words],
            env={**self.env, **more}, cwd=self.folder, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def andon(self, *words: str) -> Done:
        with self.start(*words) as process:
            try:
                out, err = process.communicate(timeout=SECONDS)
            finally:
                process.kill()
        return Done(process.returncode, out, err)

    def fine(self, *words: str) -> str:
        done = self.andon(*words)
        assert done.code == 0, done.err
        return done.out

    def submit(self, *words: str) -> str:
        return self.fine("submit", *self.on, *words).strip()

    def ended(self, *words: str) -> str:
        """Submits a job and waits for its end, whatever that is."""
        return self.andon("submit", *self.on, "--wait", *words).out.strip()

    def job(self, label: str) -> dict[str, Any]:
        found: dict[str, Any]
        (found,) = json.loads(self.fine("jobs", "show", "--json", label))["jobs"]
        return found

    def until(self, label: str, state: str) -> None:
        wait_until(lambda: self.job(label)["state"] == state, f"{label}, {state}")


def until_idle(process: subprocess.Popen[str]) -> None:
    """Waits until a command does nothing but wait: whoever has work is not asleep so often."""

    def sleeps() -> bool:
        time.sleep(0.02)
        stat = Path(f"/proc/{process.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "S"

    wait_until(lambda: all(sleeps() for _ in range(LOOKS)), "its rest")


class Known(Struct, frozen=True):
    """Jobs that stay as they are, and the list of jobs when there were no others."""

    good: str
    bad: str
    killed: str
    runs: str
    waits: str
    listed: str

    def named(self, word: str, desk: Desk) -> str:
        return desk.unknown if word == "unknown" else str(getattr(self, word))


def known_jobs(desk: Desk) -> Known:
    good, bad, killed = (
        desk.ended("--name", name, "--", "sh", "-c", script)
        for name, script in (
            ("good", "echo one; echo two"), ("bad", "exit 3"), ("killed", "kill -9 $$"),
        )
    )  # fmt: skip
    runs = desk.submit("--name", "runs", "--", "sh", "-c", "echo up; sleep 600")
    desk.until(runs, "running")
    waits = desk.submit("--name", "waits", "--after", runs, "--", "echo", "later")
    wait_until(lambda: desk.andon("logs", runs).out, "its output")
    return Known(good, bad, killed, runs, waits, desk.fine("jobs", "--json"))


@contextmanager
def opened_desk(name: str, request: pytest.FixtureRequest) -> Iterator[Desk]:
    """A desk in a folder of its own, and nothing that it runs is left."""
    folder: Path = request.getfixturevalue("tmp_path_factory").mktemp(name)
    with pytest.MonkeyPatch.context() as patch, cleaned(settle(patch, folder)):
        (folder / "home").mkdir()
        patch.setenv("HOME", str(folder / "home"))
        patch.setenv("ANDON_CONFIG", str(folder / "andon.toml"))
        (folder / "andon.toml").touch()
        slurm: Slurm | None = None
        if name == SLURM:
            slurm = request.getfixturevalue("slurm")
            patch.setenv("SLURM_CONF", str(slurm.configuration))
        if name == HERE:
            (folder / "driver").mkdir()
            driver = StandIn(folder / "driver")
            driver.write(StandIn.devices(GPUS))
            for variable, value in driver.environment(request.getfixturevalue("library")).items():
                patch.setenv(variable, value)
        if name == LAB:
            patch.setenv("PYTHONPATH", str(_package(folder / "site")))
            lines = f'kind = "counting-house"\nfolder = "{folder / "lab"}"\ntimeout = 20\n'
            (folder / "andon.toml").write_text(f"[clusters.lab]\n{lines}")
        desk = Desk(name, folder, dict(os.environ))
        if name == LAB:
            desk.lab = FakeCluster.make(folder / "lab", PlayedNode("n1", GPUS, "H100"))
        yield desk
        if slurm is not None:
            slurm("scancel", "--quiet", "--user=root")
            wait_until(lambda: not slurm("squeue", "-h"), "the end of its jobs")


def _package(site: Path) -> Path:
    """The package of another author, as an installer would leave it: pip takes seconds."""
    shutil.copytree(PACKAGE / "andon_abacus", site / "andon_abacus")
    told = site / "andon_abacus-1.2.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: andon-abacus\nVersion: 1.2\n")
    place = "andon_abacus.counting_house:CountingHouse"
    (told / "entry_points.txt").write_text(f"[andon.clusters]\ncounting-house = {place}\n")
    return site


def plain(text: str, desk: Desk, known: Known) -> str:
    """The same text on every machine and at any time: jobs of their names, and no numbers."""
    text = text.replace(str(desk.folder), "FOLDER")
    for name in ("good", "bad", "killed", "runs", "waits"):
        label = known.named(name, desk)
        number = label.removeprefix(desk.prefix)
        before = "|".join(filter(None, (r"\bjob ", r"\bafter +", desk.prefix)))
        text = re.sub(rf"({before}){number}\b", rf"\1{name.upper()}", text)
    for pattern, mask in MASKS:
        text = re.sub(pattern, mask, text)
    return text


SLURMS_YEAR = 365 * 86400.0  # now and then it says so of a job that has no limit
MASKS = (
    (r"(?m)^  limit +365 d\n", ""),
    (r"\b\d\d:\d\d by \S+", "TIME by USER"),
    (r"\b\d\d:\d\d\b", "TIME"),
    (r"(took +)\S.*", r"\1SECONDS"),
    (r"(?m)^(  (?:lease|run|record) +)\S+$", r"\1ID"),
    (r"(?m), lease \w+$", ", lease ID"),
    (r"\bn\d\b", "NODE"),
    (r"GPU \d", "GPU N"),
)
TIMES = ("at", "ended", "expected_start", "seconds", "started", "submitted_at")
PLACES = ("device_uuids", "devices", "folder", "lease", "pid", "record", "run", "user")
IDS = ("label", "engine_id", "number", "after", "after_any", "array")


def masked(text: str) -> str:
    """The same JSON on every machine and at any time: only whether there is a value stays."""

    def mask(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {one: mask(one, other) for one, other in value.items()}
        if isinstance(value, list) and name not in PLACES:
            return [mask(name, one) for one in value]
        if name == "for_seconds" and value == SLURMS_YEAR:
            return None
        if value is not None and name in TIMES:
            return "TIME"
        if value and name in PLACES:
            return name.upper()
        if value and name in IDS:
            return re.sub(r"\d+", "N", value) if isinstance(value, str) else 1
        if name in ("where", "reason") and isinstance(value, str):
            return re.sub(r"\bn\d+|(?<=GPU )\d+|(?<=job )\d+", "N", value)
        return value

    return json.dumps(mask("", json.loads(text)), indent=1) + "\n"
