"""andon on macOS and Windows, as far as Linux can show it: what these lack is taken away
(`tests/support/other_system`). Nothing here was run on such a system."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.serving import Served, serving
from tests.support.ssh_hosts import SshHosts

PRETENDING = Path(__file__).parents[2] / "support/other_system"
SYSTEMS = ("darwin", "win32")
READS: tuple[tuple[str, str], ...] = (
    ("version", "andon "),
    ("status --simulate 2", "mean utilisation of 2 GPUs"),
    ("why 0 --simulate 2", "GPU 0"),
    ("ps --simulate 2", "SIMULATED"),
    ("watch --simulate 2 -n 2", "GPU"),
    ("selftest --simulate 1", "fine"),
    ("estimate llama-3-70b", "GiB"),
    ("runs", "no runs"),
    ("config show", "alerts."),
)
"""Commands that work everywhere, and a word of what they print."""
NEED_LOCKS = ("free --simulate 1", "run --simulate 1 -- true", "submit -- true", "leases", "who")
"""Commands that Windows cannot have without another machine, and says so."""
FROM_SERVER: tuple[tuple[str, str], ...] = (
    ("status", "SIMULATED"),
    ("free", "free"),
    ("leases", "no leases"),
    ("jobs", "no jobs"),
    ("alerts", ""),
)
ALL = """
import contextlib, io, json, sys
from andon.cli.main import run
for line in sys.stdin.read().splitlines():
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        code = run(line.split())
    print(json.dumps([line, code, shown.getvalue()]), file=sys.__stdout__)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it pretends to be elsewhere")


def commands(system: str, folder: Path, *lines: str, **env: str) -> dict[str, tuple[int, str]]:
    """Runs these commands in one process on the other system: their exit codes and output."""
    own = {"PYTHONPATH": str(PRETENDING), "PRETENDED_SYSTEM": system, "HOME": str(folder),
           "XDG_STATE_HOME": str(folder / "state"), "COLUMNS": "100"}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", ALL], input="\n".join(lines), capture_output=True, text=True,
        timeout=170, env={**os.environ, **own, **env}, check=False,
    )  # fmt: skip
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one[0] for one in found] == list(lines), done.stderr
    return {line: (code, text) for line, code, text in found}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served"), "--no-history", simulate=2) as found:
        yield found


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_reads_works_with_simulated_devices(system: str, tmp_path: Path) -> None:
    found = commands(system, tmp_path, *(line for line, _ in READS))
    wrong = {line: found[line] for line, word in READS
             if found[line][0] != 0 or word not in found[line][1]}  # fmt: skip
    assert not wrong


@pytest.mark.parametrize(
    ("system", "told"), [("darwin", "cannot be read on macOS"), ("win32", "on Linux only")]
)
def test_what_cannot_be_read_is_said(system: str, told: str, tmp_path: Path) -> None:
    lines = ("status", "status --json", "doctor")
    found = commands(system, tmp_path, *lines)
    assert [found[line][0] for line in lines] == [3, 3, 3]
    assert told in " ".join(found["doctor"][1].split())
    assert "cgroup" not in found["doctor"][1]  # which nothing but Linux has
    shown = json.loads(found["status --json"][1])
    assert shown["devices"] == []
    assert told in shown["faults"][0]["reason"]
    assert shown["host"]["memory_total_bytes"] > 0
    assert shown["host"]["cpu_percent"] is not None


def test_what_needs_locks_says_so_on_windows(tmp_path: Path) -> None:
    found = commands("win32", tmp_path, *NEED_LOCKS)
    for code, text in found.values():
        assert code == 3, text
        assert "Windows has none" in text or "only Linux and macOS have" in text


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_server_elsewhere_is_asked(system: str, served: Served, tmp_path: Path) -> None:
    found = commands(
        system, tmp_path, *(line for line, _ in FROM_SERVER),
        ANDON_URL=served.url, ANDON_TOKEN=served.token,
    )  # fmt: skip
    wrong = {line: found[line] for line, word in FROM_SERVER
             if found[line][0] not in (0, 1) or word not in found[line][1]}  # fmt: skip
    assert not wrong


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_host_is_asked_over_ssh(system: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        hosts = SshHosts(tmp_path / "hosts", 28650)
        stack.callback(hosts.close)
        hosts.add("lab1")
        found = commands(system, tmp_path, "status --ssh lab1", **hosts.environment())
    code, text = found["status --ssh lab1"]
    assert (code, "lab1" in text, "Traceback" in text) == (0, True, False), text


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_library_can_be_imported(system: str, tmp_path: Path) -> None:
    code = (
        "import andon; monitor = andon.get_gpu_monitor(); "
        "print(monitor.is_available(), monitor.query_gpus(), andon.sparkline([0, 100]))"
    )
    own = {"PYTHONPATH": str(PRETENDING), "PRETENDED_SYSTEM": system, "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
        env={**os.environ, **own}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("False None")
