"""Programs in which the library finds neither Python nor packages in the usual places, and what it
says of a driver that it cannot read."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.standin import StandIn, hung, init_fails, lost

MISMATCH = 18
REAL_PYTHON = str(Path(sys.executable).resolve())  # without the packages of these tests
PROGRAM = """
import sys
found_in, sys.path[:] = sys.path[:], [one for one in sys.path if one]  # json is Python's own
import json, os
sys.path[:] = found_in
{setup}
import andon
monitor = andon.get_gpu_monitor()
session = monitor.start_monitoring(0.1)
found = session.stop()
query = monitor.query_gpus()
print(json.dumps({{
    "stats": sorted(found["gpu_stats"]), "faults": found["faults"],
    "available": monitor.is_available(), "metrics": len(monitor.collect_metrics()),
    "free": monitor.get_available_gpus(), "now": monitor.faults(),
    "queried": None if query is None else [len(query.gpus), query.faults],
}}))
{after}
"""
NOWHERE = (
    "sys.executable = sys._base_executable = None;"
    "sys.exec_prefix = sys.base_exec_prefix = '/nonexistent'; os.environ['PATH'] = ''"
)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A folder of andon's packages, as `pip install --target` makes one; andon is in another."""
    folder = tmp_path / "vendor"
    folder.mkdir()
    for place in Path(sysconfig.get_path("purelib")).iterdir():
        if place.suffix != ".pth" and place.name != "andon":
            (folder / place.name).symlink_to(place)
    return folder


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch, own_places: Path) -> None:
    monkeypatch.setenv("ANDON_SIMULATE", "2")
    monkeypatch.setenv("ANDON_SIMULATE_SCENARIO", "idle")


def run(setup: str = "", after: str = "", python: str = sys.executable, **more: Any) -> Any:
    """What the program prints, and what it writes to standard error."""
    code = PROGRAM.format(setup=setup, after=after)
    done = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, timeout=120, check=False, **more
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    return json.loads(lines[0]), done.stderr, lines[1:]


def from_bundle(bundle: Path, setup: str = "", **more: Any) -> Any:
    """The same for a Python that has no packages of its own."""
    added = f"sys.path[:0] = {[str(bundle), str(REPOSITORY / 'src')]!r}; {setup}"
    env = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    return run(added, python=REAL_PYTHON, env=env, **more)


def reads_both(found: Any, said: str) -> None:
    assert (found["stats"], found["free"], found["metrics"]) == (["0", "1"], [0, 1], 2), said
    assert (found["available"], found["faults"], found["now"]) == (True, [], [])
    assert found["queried"] == [2, []]


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize(
    "setup",
    [
        "",
        "sys.executable = ''",
        "sys.executable = None",
        "sys.frozen, sys.executable = True, '/bin/false'",
        "sys.executable = '/bin/false'",
        "sys.executable = sys._base_executable = '/nonexistent/python3'",
    ],
)
def test_packages_in_a_folder_of_their_own_and_no_python_named(bundle: Path, setup: str) -> None:
    found, said, _ = from_bundle(bundle, setup)
    reads_both(found, said)
    assert said == ""


@pytest.mark.usefixtures("simulated")
def test_another_python_is_not_taken_unless_it_can_load_what_is_needed(tmp_path: Path) -> None:
    other = tmp_path / "python3"
    other.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\nexit 1\n")
    other.chmod(0o755)
    found, said, _ = run(f"sys.executable = {str(other)!r}")
    reads_both(found, said)
    assert (tmp_path / "asked").exists()
    found, said, _ = run(f"sys.executable = {REAL_PYTHON!r}")
    reads_both(found, said)


@pytest.mark.usefixtures("simulated")
def test_a_programs_own_files_hide_no_module_of_python(bundle: Path, tmp_path: Path) -> None:
    """Folders that a program adds, and the one that it is started in, which no reader may use."""
    added, current = tmp_path / "added", tmp_path / "current"
    for folder, names in (
        (added, ("types", "select", "warnings", "enum", "threading")),
        (current, ("types", "msgspec", "pynvml", "andon", "select")),
    ):
        folder.mkdir()
        for name in names:
            (folder / f"{name}.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n1 / 0\n")
    setup = f"import json.tool, subprocess, threading, logging; sys.path.insert(0, {str(added)!r})"
    imports = (
        f"sys.path[:] = [one for one in sys.path if one]; import msgspec, andon.api.watch; {setup}"
    )
    found, said, _ = from_bundle(bundle, f"{imports}; sys.path.insert(0, '')", cwd=current)
    reads_both(found, said)
    assert not list(tmp_path.glob("*/ran"))


@pytest.mark.usefixtures("simulated")
def test_where_no_python_can_be_found_the_reason_is_given_and_the_program_goes_on() -> None:
    after = """
with andon.run("train"): pass
"""
    found, said, _ = run(NOWHERE, after)
    assert (found["stats"], found["available"]) == ([], False)
    assert said.count("andon reads no GPU: the reader could not be started") == 1
    assert "was found that can load andon · " in said
    assert found["faults"][0]["code"] == "reader_ended"
    assert "without a GPU (the reader could not be started" in said


@pytest.mark.usefixtures("own_places")
def test_a_mismatch_is_one_warning_and_a_fault_of_every_answer(node: StandIn) -> None:
    after = """
with andon.run("train", devices=[0]): pass
with andon.GpuMonitorCallback(name="loop") as callback: callback.step()
"""
    with node.broken(init_fails(MISMATCH)):
        found, said, _ = run(after=after)
    assert (found["stats"], found["available"], found["queried"]) == ([], False, None)
    assert (found["free"], found["metrics"]) == ([], 0)
    reason = found["faults"][0]["reason"]
    assert "versions differ" in reason
    assert found["now"][0]["code"] == found["faults"][0]["code"] == "version_mismatch"
    assert said.count("andon reads no GPU") == 1
    assert f"andon reads no GPU: {reason} · {found['faults'][0]['hint']}\n" in said
    assert said.count(f"without a GPU ({reason}") == 2, "of the run and of the callback"


@pytest.mark.usefixtures("own_places")
def test_lost_and_hung_cards_are_named_beside_those_that_answer(node: StandIn) -> None:
    with node.broken(lost(2), hung(device=5)):
        found, said, _ = run()
    assert found["stats"] == ["0", "1", "3", "4", "6", "7"]
    for faults in (found["faults"], found["now"], found["queried"][1]):
        assert [(one["source"], one["code"]) for one in faults] == [
            ("GPU 2", "lost"),
            ("GPU 5", "stale"),
        ]
        assert "fallen off the bus" in faults[0]["reason"]
        assert all(one["hint"] for one in faults)
    assert "andon reads no GPU" not in said


@pytest.mark.usefixtures("own_places")
def test_a_machine_without_a_gpu_is_told_nothing(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/proc").symlink_to("/proc")
    env = {**os.environ, "ANDON_ROOT": str(tmp_path / "root"), "LD_LIBRARY_PATH": ""}
    found, said, _ = run(env=env)
    assert (found["stats"], found["available"], said) == ([], False, "")
    assert found["now"][0]["code"] == "no_driver", "the reason is known all the same"


@pytest.mark.usefixtures("simulated")
def test_a_reader_that_cannot_start_is_a_warning_with_its_reason(bundle: Path) -> None:
    (bundle / "msgspec").unlink()
    own = shutil.copytree(Path(sysconfig.get_path("purelib")) / "msgspec", bundle / "msgspec")
    hidden = own.with_name("hidden")
    found, said, _ = from_bundle(
        bundle, f"import msgspec; os.rename({str(own)!r}, {str(hidden)!r})"
    )
    assert (found["stats"], found["available"]) == ([], False)
    assert said.count("andon reads no GPU: the reader ended: exit code 1 (ModuleNotFoundError") == 1
    assert found["faults"][0]["code"] == "reader_ended"
