"""Jobs on machines that are reached over SSH, each a real sshd on loopback with a home, a queue and
simulated GPUs of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from andon.app.clusters import cluster_desk
from andon.clusters.ssh import SshQueue
from andon.jobs.clusters.hosts import HostsDesk
from andon.model.job.desk import Accepted, Submission
from andon.ports import Cluster
from andon.settings.clusters import ClusterSettings
from andon.testing.cluster_contract import ClusterContract
from tests.integration.parts import wait_until
from tests.support.desk_contract import DeskContract, RefusingContract
from tests.support.ssh_hosts import SSHD, SshHosts, andon

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sshd is started as on Linux")

CALM = {"ANDON_SIMULATE_SCENARIO": "idle"}
SIM = ("--simulate", "4")
NOTHING = """#!/bin/sh
echo '{"andon":"0.1"}'; echo '{"code":0,"said":"","out":[]}'
"""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHosts]:
    assert Path(SSHD).exists(), "install openssh-server: dev/parts does"
    made = SshHosts(tmp_path_factory.mktemp("queues"), 28600)
    try:
        for name in ("n17", "n18", "n19"):
            made.add(name, environment=CALM)
        made.add("bare", andon="nothing")
        config = made.folder / "here/config/andon/andon.toml"
        config.parent.mkdir(parents=True)
        config.write_text('[ssh.groups]\nlab = ["n17", "n18", "n19"]\n')
        yield made
    finally:
        for name in ("n17", "n18", "n19"):
            _on(made, name, "cancel", *_active(made, name))
        made.close()


def _on(hosts: SshHosts, name: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """Runs a command as if it were typed on a host."""
    return subprocess.run(
        [sys.executable, "-m", "andon.cli", *words], capture_output=True, text=True, timeout=90,
        env={**os.environ, **hosts.variables[name]}, check=False,
    )  # fmt: skip


def _jobs_there(hosts: SshHosts, name: str) -> list[dict[str, Any]]:
    done = _on(hosts, name, "jobs", "--all", "--json")
    found: list[dict[str, Any]] = json.loads(done.stdout)["jobs"]
    return found


def _runs(hosts: SshHosts, name: str) -> bool:
    return any(one["state"] == "running" for one in _jobs_there(hosts, name))


def _active(hosts: SshHosts, name: str) -> list[str]:
    states = ("waiting", "running", "held", "later")
    return [one["label"] for one in _jobs_there(hosts, name) if one["state"] in states] or ["0"]


def _clean(hosts: SshHosts) -> None:
    for name in ("n17", "n18", "n19"):
        _on(hosts, name, "cancel", *_active(hosts, name))


def _submitted(hosts: SshHosts, on: str, *words: str) -> list[str]:
    done = andon(hosts, "submit", "--on", on, *SIM, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def _listed(hosts: SshHosts, *words: str) -> dict[str, dict[str, Any]]:
    done = andon(hosts, "jobs", "--json", "--all", *words)
    assert done.returncode == 0, done.stderr
    return {one["label"]: one for one in json.loads(done.stdout)["jobs"]}


def simulated(one: Submission) -> Submission:
    return replace(one, job=replace(one.job, simulate=4))


@pytest.mark.long
class TestOneHost(ClusterContract):
    explains_shortage, pause_seconds = True, 12

    @pytest.fixture
    def reopen(self, hosts: SshHosts, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Cluster]:
        monkeypatch.setenv("PATH", hosts.environment()["PATH"])
        self._hosts = hosts
        _clean(hosts)
        return lambda: SshQueue(ClusterSettings("ssh:n17", "ssh", 10.0, {}))

    def _submission(self, script: str, *more: Any, **others: Any) -> Submission:
        return simulated(super()._submission(script, *more, **others))

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        port = self._hosts.port("n17")
        self._hosts.stop("n17")
        yield
        self._hosts.start("n17", port)

    def away(self) -> AbstractContextManager[object]:
        return self._refusing()

    @contextmanager
    def slow(self) -> Iterator[None]:
        server = self._hosts.pid("n17")
        os.kill(server, signal.SIGSTOP)
        yield
        os.kill(server, signal.SIGCONT)


class Simulated(HostsDesk):
    """Two hosts whose simulated GPUs are wanted."""

    def submit(self, jobs: Sequence[Submission], dry: bool = False) -> list[Accepted]:
        return super().submit([simulated(one) for one in jobs], dry)


@pytest.mark.long
class TestHosts(DeskContract, RefusingContract):
    def word(self, text: str) -> str:
        return f"ssh:n18:{text}"

    @pytest.fixture
    def desk(
        self, hosts: SshHosts, state_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[HostsDesk]:
        monkeypatch.setenv("PATH", hosts.environment()["PATH"])
        _clean(hosts)
        named = [ClusterSettings(f"ssh:{name}", "ssh", 20.0) for name in ("n18", "n19")]
        yield Simulated("ssh:@lab", [cluster_desk(one) for one in named])
        _clean(hosts)


def test_a_job_goes_to_the_host_that_can_start_it_now(hosts: SshHosts) -> None:
    _clean(hosts)
    _submitted(hosts, "ssh:n17", "--gpus", "4", "--name", "holder", "--", "sleep", "60")
    wait_until(lambda: _runs(hosts, "n17"), "it runs")
    done = andon(
        hosts, "submit", "--on", "ssh:n17,n18", *SIM, "--gpus", "2", "--", "sh", "-c",
        "echo $HOME; echo $ANDON_NODE; exit 3",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    label = done.stdout.strip()
    assert label.startswith("ssh:n18:")
    assert re.search(r"on n18 \(GPU \d, \d of \d free now; n17 0 of 4 GPUs free\)", done.stderr)
    waited = andon(hosts, "jobs", "wait", label)
    assert waited.returncode == 3, waited.stderr
    assert andon(hosts, "logs", label).stdout == f"{hosts.home('n18')}\nn18\n"
    assert _listed(hosts, "--on", "ssh:n18")[label]["state"] == "failed"
    why = andon(hosts, "why", label)
    assert "exit code 3" in why.stdout, why.stdout + why.stderr
    assert andon(hosts, "cancel", "ssh:n17:999").returncode == 5


def test_run_has_the_output_and_the_exit_code(hosts: SshHosts) -> None:
    _clean(hosts)
    done = andon(hosts, "run", "--on", "ssh:@lab", *SIM, "--", "sh", "-c", "echo done; exit 7")
    assert (done.returncode, done.stdout) == (7, "done\n"), done.stderr
    assert "free now" in done.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--", "no-such-program"), "no-such-program: command not found"),
        (("--gpus", "9", "--", "true"), "9 GPUs"),
        (("--image", "no-such-image", "--", "true"), ""),
    ],
)
def test_what_is_missing_there_is_said_before_anything_is_queued(
    hosts: SshHosts, words: tuple[str, ...], reason: str
) -> None:
    before = len(_jobs_there(hosts, "n18"))
    done = andon(hosts, "submit", "--on", "ssh:n18", *SIM, *words)
    assert done.returncode != 0
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    assert len(_jobs_there(hosts, "n18")) == before
    assert "not known" not in done.stderr


def test_a_folder_that_is_not_there_and_its_copy(hosts: SshHosts, tmp_path: Path) -> None:
    _clean(hosts)
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "train.sh").write_text("#!/bin/sh\ncat data.txt; ls -A\n")
    (folder / "train.sh").chmod(0o755)
    (folder / "data.txt").write_text("from here\n")
    (folder / "big.bin").write_text("x")
    (folder / ".gitignore").write_text("*.bin\n")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    surroundings = {**hosts.surroundings()}

    def at(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "andon.cli", *words], cwd=folder, env=surroundings, text=True,
            capture_output=True, timeout=90, check=False,
        )  # fmt: skip

    done = at("run", "--on", "ssh:n18", *SIM, "--sync", "--", "./train.sh")
    assert (done.returncode, done.stdout) == (0, "from here\n.gitignore\ndata.txt\ntrain.sh\n"), (
        done.stderr
    )
    assert "its folder was copied to" in done.stderr
    moved = tmp_path / "only-here"
    folder.rename(moved)
    spec = andon(hosts, "submit", "--on", "ssh:bare", *SIM, "--", "true")
    assert "no andon" in spec.stderr


def test_a_host_that_is_away_has_jobs_that_are_not_known_and_loses_none(hosts: SshHosts) -> None:
    _clean(hosts)
    (label,) = _submitted(hosts, "ssh:n19", "--", "sleep", "600")
    wait_until(lambda: _listed(hosts)[label]["state"] == "running", "it runs")
    port = hosts.port("n19")
    hosts.stop("n19")
    try:
        wait_until(lambda: _listed(hosts)[label]["state"] == "unknown", "it is not known")
        found = _listed(hosts)[label]
        assert "n19 does not answer" in found["reason"]
        done = andon(hosts, "submit", "--on", "ssh:@lab", *SIM, "--", "true")
        assert done.returncode == 0, done.stderr
        assert "n19: " in done.stderr
    finally:
        hosts.start("n19", port)
    wait_until(lambda: _listed(hosts)[label]["state"] == "running", "it is known again")
    assert andon(hosts, "cancel", label).returncode == 0


def test_a_sweep_is_spread_over_the_hosts(hosts: SshHosts) -> None:
    _clean(hosts)
    labels = _submitted(
        hosts, "ssh:@lab", "--param", "seed=1..30", "--name", "sweep", "--", "true", "{seed}"
    )
    counts = {name: sum(f":{name}:" in one for one in labels) for name in ("n17", "n18", "n19")}
    assert counts == {"n17": 10, "n18": 10, "n19": 10}
    assert len(set(labels)) == 30
    assert andon(hosts, "jobs", "wait", *labels).returncode == 0


@pytest.mark.long
def test_an_array_is_spread_too(hosts: SshHosts) -> None:
    _clean(hosts)
    words = ("--array", "0-11", "--name", "both", "--", "sh", "-c", "echo $ANDON_ARRAY_INDEX")
    done = andon(hosts, "submit", "--on", "ssh:n17,n18", *SIM, *words)
    labels = done.stdout.split()
    assert len(labels) == 2, done.stderr
    assert ": 6 on n17; 6 on n18" in done.stderr
    assert andon(hosts, "jobs", "wait", "both").returncode == 0
    found = [one for one in _listed(hosts).values() if one["label"].rpartition("_")[0] in labels]
    assert sorted(one["array_index"] for one in found) == list(range(12))


@pytest.mark.parametrize(
    "seconds", [0.2, *(pytest.param(one, marks=pytest.mark.long) for one in (0.05, 0.35, 0.5, 0.8))]
)
def test_a_cut_connection_never_makes_two_jobs(hosts: SshHosts, seconds: float) -> None:
    _clean(hosts)
    name = f"cut-{seconds}"
    words = ("submit", "--on", "ssh:n18", *SIM, "--name", name, "--", "true")
    with hosts.begun(*words) as client:
        time.sleep(seconds + 0.6)  # its own start
        hosts.cut("n18")
        client.wait(30)
    wait_until(lambda: _settled(hosts, name), "its end is known")
    there = [one for one in _jobs_there(hosts, "n18") if one["name"] == name]
    here = [one for one in _listed(hosts).values() if one["name"] == name]
    assert len(there) <= 1
    assert len(here) <= 1
    if there:  # it is found by its label
        assert [one["label"] for one in here] == [f"ssh:n18:{there[0]['label']}"]


def _settled(hosts: SshHosts, name: str) -> bool:
    states = [one["state"] for one in _listed(hosts).values() if one["name"] == name]
    return all(state in ("succeeded", "failed", "lost") for state in states)


@pytest.mark.long
def test_a_job_is_started_elsewhere_once_it_cannot_run_on_its_host(hosts: SshHosts) -> None:
    _clean(hosts)
    (label,) = _submitted(hosts, "ssh:n19", "--name", "moved", "--", "sh", "-c", "sleep 600")
    wait_until(lambda: _listed(hosts)[label]["state"] == "running", "it runs")
    words = ("jobs", "retry", label, "--on", "ssh:n18")
    there = andon(hosts, *words)
    assert there.returncode == 6
    assert "is running there" in there.stderr
    port = hosts.port("n19")
    hosts.stop("n19")
    try:
        away = andon(hosts, *words)
        assert away.returncode == 6
        assert "whether ssh:n19:" in away.stderr
        assert "still runs is not known" in away.stderr
        forced = andon(hosts, *words, "--force")
        assert forced.returncode == 0, forced.stderr
        assert forced.stdout.startswith("ssh:n18:")
        assert andon(hosts, "cancel", forced.stdout.strip()).returncode == 0
    finally:
        hosts.start("n19", port)
    assert andon(hosts, "cancel", label).returncode == 0
    wait_until(lambda: _listed(hosts)[label]["state"] == "cancelled", "its end")
    back = andon(hosts, *words)
    assert (back.returncode, back.stdout[:8]) == (0, "ssh:n18:"), back.stderr
    assert andon(hosts, "jobs", "retry", "12", "--on", "ssh:n18").returncode == 2


def test_where_no_host_takes_a_job_each_says_why(hosts: SshHosts) -> None:
    done = andon(hosts, "submit", "--on", "ssh:bare,n17", *SIM, "--", "no-such-program")
    assert done.returncode == 3
    assert "no host of ssh:bare,n17 takes this job" in done.stderr
    assert "  bare: no andon and no nvidia-smi there" in done.stderr
    assert "  n17: no-such-program: command not found" in done.stderr
    away = andon(hosts, "submit", "--on", "ssh://no-such.invalid:1,bare", "--", "true").stderr
    assert "  ssh://no-such.invalid:1: no such name" in away
    (hosts.folder / "items").write_text("a\n")
    many = (
        "map",
        "--on",
        "ssh:n17",
        "--items",
        str(hosts.folder / "items"),
        "--",
        "echo",
        "{item}",
    )
    assert "hosts over SSH take jobs of andon submit" in andon(hosts, *many).stderr
    group = andon(hosts, "cancel", "ssh:@lab:3")
    assert (group.returncode, "ssh:@lab is a group" in group.stderr) == (2, True)
    for name, reason in (("ssh:@nobody", "there is no group @nobody"), ("ssh:-x", "begins with -"),
                         ("ssh", "no host is named"), ("ssh:", "is empty")):  # fmt: skip
        done = andon(hosts, "submit", "--on", name, "--", "true")
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
        assert reason in done.stderr


@pytest.mark.parametrize(
    ("word", "reason"), [("caf\udce9", "is not UTF-8"), ("日" * 43_000, "too large to be sent")]
)
def test_a_job_that_cannot_be_sent(hosts: SshHosts, word: str, reason: str) -> None:
    done = andon(hosts, "submit", "--on", "ssh:n17", *SIM, "--", "echo", word, "日" * 100)
    assert (done.returncode, reason in done.stderr) == (2, True), done.stderr[-300:]


def test_a_host_whose_andon_knows_no_jobs_of_hosts(hosts: SshHosts) -> None:
    old = "#!/bin/sh\necho \"andon: what was asked cannot be answered: 'ask'\" >&2\nexit 2\n"
    hosts.script(hosts.home("bare") / "bin/andon", old)
    try:
        done = andon(hosts, "submit", "--on", "ssh:bare", "--", "true")
        hosts.script(hosts.home("bare") / "bin/andon", NOTHING)
        few = andon(hosts, "submit", "--on", "ssh:bare", "--", "true")
        assert "upgrade there (0 answers to 1 jobs)" in few.stderr
    finally:
        (hosts.home("bare") / "bin/andon").unlink()
    assert done.returncode == 3
    assert "runs andon of another version: upgrade there" in done.stderr


def test_of_jobs_in_a_file_all_must_suit_the_host(hosts: SshHosts, tmp_path: Path) -> None:
    file = tmp_path / "both.toml"
    job = '[[job]]\nname = "%s"\ncommand = ["true"]\nsimulate = 4\ngpus = %d\n'
    first = 'on = "ssh:n17,n18"\n' + job % ("linked", 1)
    file.write_text(first + job % ("large", 8) + 'after = ["linked"]\n')
    done = andon(hosts, "submit", str(file))
    assert "n18: 8 GPUs requested, only 4 visible" in done.stderr
    names = [one["name"] for host in ("n17", "n18") for one in _jobs_there(hosts, host)]
    assert "linked" not in names


def test_the_variables_of_a_job_file_are_sent(hosts: SshHosts, tmp_path: Path) -> None:
    _clean(hosts)
    file = tmp_path / "train.toml"
    file.write_text(
        'on = "ssh:n17"\ncommand = "echo $PROJECT $OTHER"\nsimulate = 4\ngpus = 1\n'
        f'folder = "{Path.cwd()}"\nenvironment = {{PROJECT = "same"}}\n'
    )
    done = andon(hosts, "submit", "--wait", str(file), PROJECT="same", OTHER="secret")
    label = done.stdout.strip()
    assert andon(hosts, "logs", label).stdout == "same\n", done.stderr
    again = andon(hosts, "jobs", "retry", label, "--on", "ssh:n18")
    assert again.returncode == 2
    assert "the values of PROJECT are not kept here" in again.stderr


def test_a_virtual_environment_is_first_once_for_each_job_of_a_sweep(
    hosts: SshHosts, tmp_path: Path
) -> None:
    _clean(hosts)
    (tmp_path / "bin").mkdir()
    words = ("--on", "ssh:n17", *SIM, "--param", "x=1,2,3", "--", "sh", "-c", "echo $PATH #{x}")
    done = andon(hosts, "submit", "--wait", *words, VIRTUAL_ENV=str(tmp_path))
    last = andon(hosts, "logs", done.stdout.split()[-1])
    assert last.stdout.split(":").count(f"{tmp_path}/bin") == 1, last.stdout + done.stderr


def test_a_copy_that_fails_and_one_for_each_sweep(
    hosts: SshHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _clean(hosts)
    monkeypatch.chdir(tmp_path)
    words = ("--sync", "--param", "x=1,2", "--name", "synced", "--", "ls", "{x}")
    (tmp_path / "one").touch()
    for _ in range(2):
        assert len(_submitted(hosts, "ssh:n17", *words)) == 2
    assert len(list((hosts.home("n17") / "state/andon/copies").glob(f"{tmp_path.name}-*"))) == 2
    (tmp_path / "large").write_bytes(bytes(8 << 20))
    tar = hosts.script(
        hosts.home("n17") / "bin/tar", "#!/bin/sh\nyes full | head -c 9000000 >&2\nexit 2\n"
    )
    try:
        done = andon(hosts, "submit", "--on", "ssh:n17", *SIM, "--sync", "--", "true")
    finally:
        tar.unlink()
    assert done.returncode == 3
    assert "the folder was not copied: full" in done.stderr


def test_a_dry_run_shows_what_each_host_offers(hosts: SshHosts) -> None:
    _clean(hosts)
    words = ("--gpus", "2", "--dry-run", "--", "sh", "-c", "exit 0")
    done = andon(hosts, "submit", "--on", "ssh:@lab", *SIM, *words)
    assert done.returncode == 0, done.stderr
    offer = r"GPU \d, \d of \d free now\n"
    assert re.search(rf": sh -c exit 0\nn17 {offer}n18 {offer}n19 {offer}", done.stdout)
    listed = andon(hosts, "nodes", "--on", "ssh:n17,bare")
    assert "n17" in listed.stdout
    assert "away · no andon" in listed.stdout
