"""`--ssh` against real sshd on loopback: who answers, each failure in its own words, and nothing
that stays behind."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest

from andon.app.history import open_store
from andon.app.settings import load_settings
from andon.app.thresholds import rulebook
from andon.drivers.sim.rules import behaviour
from andon.history.rules import seeding
from andon.jobs.folder import JobsFolder, jobs_path
from andon.model.job.device_request import DeviceRequest
from andon.model.job.spec import JobSpec
from andon.node.port import Node
from andon.node.ssh import SshNode
from andon.node.ssh.client import LEASES, STATUS, Printed, SshHost
from tests.conftest import need
from tests.integration.parts import need_root, wait_until
from tests.support.disks import fill, mount
from tests.support.node_contract import NodeContract
from tests.support.ssh_hosts import SSHD, SshHosts, andon, command_line, running_ssh, silent_port
from tests.support.tmux import Tmux

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sshd is started as on Linux")

SHELLS = [name for name in ("fish", "csh", "tcsh", "dash", "busybox") if shutil.which(name)]
ESCAPES = r"""#!/bin/sh
printf '{"andon": "0.1"}\n\033]0;evil\007\033[2J{"code": 0, "out": {"schema": "andon'
"""
NEWER = """#!/bin/sh
echo '{"andon": "99.1"}'
echo '{"code": 0, "said": "", "out": {"schema": "andon.snapshot/2", "node": "n", "at": 1}}'
"""
OLDER = """#!/bin/sh
echo '{"andon": "0.0.1"}'
echo '{"code": 3, "said": "", "out": {"schema": "andon.snapshot/1", "node": "old", "at": 1.0}}'
"""
FAILING = "#!/bin/sh\necho 'andon: the state folder cannot be read' >&2\nexit 1\n"
SILENT = "#!/bin/sh\nexec sleep 654321\n"
ENDLESS = "#!/bin/sh\nexec yes an-endless-line\n"
HOSTILE = {
    "escapes": ESCAPES, "newer": NEWER, "older": OLDER, "failing": FAILING, "silent": SILENT,
    "endless": ENDLESS,
}  # fmt: skip
CALM = {"ANDON_SIMULATE_SCENARIO": "idle", "ANDON_ALERTS_DISABLED_RULES": "node_cpu"}
"""What is shown of such a host does not change from one reading to the next."""
BY_SMI = ("lab3", "inner", "chatty", *SHELLS)
ANSWERING = ("lab1", "homeless", "full", "unreadable", *BY_SMI)
NOT_ALMIGHTY = 'setpriv --bounding-set=-dac_override,-dac_read_search sh -c "$SSH_ORIGINAL_COMMAND"'
"""Root to whom the modes of files apply."""


@pytest.fixture(scope="module")
def full_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    need_root()
    folder = tmp_path_factory.mktemp("full")
    mounted = mount("-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder))
    assert mounted.returncode == 0, mounted.stderr
    fill(folder / "file")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory, full_disk: Path) -> Iterator[SshHosts]:
    assert Path(SSHD).exists(), "install openssh-server: dev/parts does"
    made = SshHosts(tmp_path_factory.mktemp("hosts"), 28200)
    try:
        made.add("lab1")
        made.add("lab2", andon="local", environment=CALM | {"ANDON_HISTORY": f"{made.folder}/past"})
        made.alias("inner", made.add("lab3", andon="smi"), "host", "ProxyJump lab3")
        made.add("lab5", andon="nothing")
        made.add("chatty", andon="smi")
        made.script(made.home("chatty") / ".bashrc", "echo 'welcome to {\"chatty\"}'\n")
        made.add("homeless", environment={"HOME": "/nonexistent"})
        made.add("hot", environment={"ANDON_ALERTS_THERMAL_CELSIUS": "1"})  # each device is
        full = {"TMPDIR": str(full_disk), "XDG_STATE_HOME": str(full_disk / "state")}
        made.add("full", environment=full)
        own = {"PATH": f"{made.home('lab1')}/bin:/usr/bin:/bin"}
        made.add("unreadable", f"ForceCommand {NOT_ALMIGHTY}", environment=own)
        made.home("unreadable").chmod(0)
        for shell in SHELLS:
            through = f"{shell} sh" if shell == "busybox" else f'{shell} -c "$SSH_ORIGINAL_COMMAND"'
            made.add(shell, f"ForceCommand {through}", andon="smi")
        made.add("hangs", "ForceCommand sleep 600")
        made.add("talks", "ForceCommand yes")
        made.add("noshell", "ForceCommand echo This account is not available.; exit 1")
        made.add("changed", key="other")
        made.add("asks", "PubkeyAuthentication no", "PasswordAuthentication yes")
        made.alias("refuses", 1)
        for name, text in HOSTILE.items():
            made.add(name, andon="nothing")
            made.script(made.home(name) / "bin/andon", text)
        yield made
    finally:
        made.close()


def asked(hosts: SshHosts, names: str, *more: str) -> dict[str, Any]:
    done = andon(hosts, "status", "--json", "--ssh", names, *more)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert found["schema"] == "andon.snapshots/1"
    assert [one["host"] for one in found["hosts"]] == list(dict.fromkeys(names.split(",")))
    return {**{one["host"]: one for one in found["hosts"]}, "code": done.returncode}


def test_hosts_with_andon_with_nvidia_smi_and_with_any_shell_answer(hosts: SshHosts) -> None:
    found = asked(hosts, ",".join((*ANSWERING, "lab1")), "--timeout", "40")
    assert found["code"] == 0, {name: found[name]["reason"] for name in ANSWERING}
    for name in ANSWERING:
        one = found[name]
        assert (one["answered"], one["reason"]) == (True, None)
        assert set(one) == {"host", "answered", "reason", "seconds", "by", "snapshot"}
        assert one["snapshot"]["schema"] == "andon.snapshot/1"
        assert len(one["snapshot"]["devices"]) == (1 if name in BY_SMI else 4)
        assert one["by"] == ("nvidia-smi" if name in BY_SMI else found["lab1"]["by"])
        assert one["snapshot"]["node"] == name


FAILURES = {
    "lab5": "no andon and no nvidia-smi there",
    "refuses": "connection refused (ssh: connect to host 127.0.0.1 port 1: Connection refused)",
    "changed": "its host key has changed",
    "asks": "permission denied",
    "nowhere": "no such name",
    "noshell": "no shell there (This account is not available.)",
    "escapes": "andon there answers, but not in JSON",
    "newer": "runs andon 99.1: upgrade here",
    "failing": "andon there fails: the state folder cannot be read",
}


def test_each_failure_has_its_own_words_and_costs_only_its_row(hosts: SshHosts) -> None:
    found = asked(hosts, ",".join(("older", *FAILURES)), "--timeout", "40")
    assert found["code"] == 1
    assert found["older"]["answered"], found["older"]["reason"]
    assert found["older"]["snapshot"]["node"] == "old"
    for name, words in FAILURES.items():
        assert not found[name]["answered"]
        assert found[name]["snapshot"] is None
        assert found[name]["reason"].startswith(words), found[name]["reason"]
    assert "try ssh asks" in found["asks"]["reason"]
    assert "ssh-keygen -R changed" in found["changed"]["reason"]


def test_whoever_hangs_or_prints_for_ever_is_left_after_the_time(hosts: SshHosts) -> None:
    with silent_port() as port:
        hosts.alias("dead", port)
        began = time.monotonic()
        found = asked(hosts, "hangs,talks,silent,endless,dead", "--timeout", "2")
        assert time.monotonic() - began < 30
    assert found["code"] == 3
    assert found["hangs"]["reason"].startswith("no answer after 2 s")
    assert "no answer after 2 s" in found["silent"]["reason"]
    assert found["dead"]["reason"].startswith(("connection timed out", "no answer after 2 s"))
    for name in ("talks", "endless"):
        assert "printed more than 16 MiB" in found[name]["reason"] or "2 s" in found[name]["reason"]
    assert running_ssh(hosts) == []
    wait_until(lambda: not command_line("654321"), "the silent command there to end")


@pytest.mark.long
def test_a_host_that_connects_and_is_silent_is_named_so(hosts: SshHosts) -> None:
    found = asked(hosts, "silent", "--timeout", "8")
    assert found["silent"]["reason"].startswith("it is connected, but no answer after 8 s")


def test_the_text_has_a_column_of_hosts_and_no_escapes(hosts: SshHosts) -> None:
    done = andon(hosts, "--ssh", "lab1,lab3", "--ssh", "escapes,lab5", "--timeout", "40")
    assert done.returncode == 1
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    begins = [line.split()[0] for line in lines[:-1]]
    order = list(dict.fromkeys(begins))
    assert [one for one in order if one != "HOST"] == ["lab1", "lab3", "escapes", "lab5"]
    assert re.search(r"^lab1 +● 0 +H200", done.stdout, re.MULTILINE)
    assert "by nvidia-smi: leases unknown" in done.stdout
    assert lines[-1] == "2 of 4 hosts answered, 1 GPU free"


@pytest.fixture(scope="module")
def lab2(hosts: SshHosts) -> Iterator[SshHosts]:
    """A host with a lease, a job that waits and a history."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in hosts.variables["lab2"].items():
            patch.setenv(name, value)
        settings, now = load_settings({}).settings, time.time()
        devices = seeding.specimens(4, settings.simulate_seed)
        ticks = [seeding.tick(devices, now - 60.0 + number) for number in range(50)]
        with closing(open_store(settings)) as store:
            facts = [behaviour.describe(one) for one in devices]
            store.write(ticks, seeding.uses(devices, now, 0.1), facts)
        jobs_path().mkdir(parents=True, mode=0o700)
        spec = JobSpec(0, "train", ("true",), "/", DeviceRequest(), now - 3600.0)
        JobsFolder(jobs_path()).submit([spec])
    words = ("run", "--simulate", "4", "--gpus", "2", "--", "sh", "-c", "echo begun; exec sleep 99")
    with hosts.begun(*words, on="lab2") as running:
        assert running.stdout is not None
        assert "begun" in running.stdout.readline()
        yield hosts


READ = (
    ("ps",), ("history", "-m", "util,memory_used,throttle"),
    *(pytest.param(words, marks=pytest.mark.long) for words in (
        ("who",), ("runs",), ("devices", "--topology"), ("alerts",), ("jobs",), ("leases",),
        ("why", "--seconds", "0"),
    )),
)  # fmt: skip
MOVING = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+|\d+[.:]?\d*|just now|[━╸─▁-█]+")
SHOWN = {"jobs": "train", "leases": "sleep", "runs": "sh", "history": "utilisation"}


@pytest.mark.parametrize("words", READ, ids=" ".join)
def test_a_command_shows_the_rows_that_it_shows_there(
    lab2: SshHosts, words: tuple[str, ...]
) -> None:
    """As a person would see them on the host itself, after its name."""
    away = andon(lab2, *words, "--ssh", "lab2", "--timeout", "40")
    assert away.returncode == 0, away.stdout
    look = ("--look",) * (words == ("jobs",))  # else it starts a dispatcher, as nobody may there
    own = andon(lab2, *words, *look, **lab2.variables["lab2"] | {"COLUMNS": "104"})
    shown = [line[6:] for line in away.stdout.splitlines()[:-1]]
    same = [line for line in own.stdout.splitlines() if line.strip()]
    assert len(shown) == len(same), away.stdout
    assert SHOWN.get(words[0], "") in away.stdout
    for left, right in zip(shown, same, strict=True):
        if "CPU" not in left and "node_cpu" not in left:
            assert _still(left) == _still(right)


def _still(line: str) -> list[str]:
    return MOVING.sub("", line).split()


def test_free_lists_the_best_host_first_and_says_whether_any_will_do(hosts: SshHosts) -> None:
    names = "lab5,lab3,lab1"
    done = andon(hosts, "free", "--gpus", "1", "--ssh", names, "--timeout", "40")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["lab1", "lab3", "lab5"]
    assert re.match(r"lab1 +GPU 1 +1 free, 14\.\d GiB", lines[0])
    assert re.match(r"lab3 +– +0 free; 1 in use without a lease; by nvidia-smi", lines[1])
    assert lines[3] == "2 of 3 hosts answered, 1 GPU free"
    many = andon(hosts, "free", "--gpus", "9", "--ssh", "lab3,lab5", "--timeout", "40")
    assert many.returncode == 3, many.stdout
    assert andon(hosts, "free", "--ssh", "lab5").returncode == 3
    later = andon(hosts, "free", "--gpus", "1", "--next", "--ssh", names, "--timeout", "40")
    lines = later.stdout.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["lab1", "lab3", "lab5"], later.stdout
    assert re.match(r"lab1 +GPU 1 +now", lines[0])
    assert "nvidia-smi" in lines[1], "what is leased and reserved there is not known"


def test_csv_has_a_column_of_hosts(hosts: SshHosts) -> None:
    done = andon(hosts, "ps", "--csv", "--ssh", "lab3,lab5,lab1", "--timeout", "40")
    rows = [line.split(",") for line in done.stdout.splitlines()]
    assert rows[0][:2] == ["host", "device"] or rows[0][0] == "host"
    assert {row[0] for row in rows[1:]} == {"lab1", "lab3"}
    assert len({len(row) for row in rows}) == 1
    assert "lab5: no andon" in done.stderr
    other = json.loads(andon(hosts, "jobs", "--json", "--ssh", "lab1").stdout)
    assert other["schema"] == "andon.answers/1"
    assert other["hosts"][0]["answer"]["jobs"] == []


def test_doctor_has_a_line_for_each_host(hosts: SshHosts) -> None:
    done = andon(hosts, "doctor", "--ssh", "lab1,lab3,lab5", "--timeout", "40")
    lines = done.stdout.splitlines()
    assert re.match(r"lab1 +andon [\d.]+, 4 GPUs; nothing is missing", lines[0])
    assert re.match(r"lab3 +nvidia-smi, 1 GPU; andon is not installed", lines[1])
    assert re.match(r"lab5 +no answer +no andon and no nvidia-smi there", lines[2])


CHANGING = (
    (("run", "--ssh", "lab3", "--gpus", "2", "--", "python", "x.py"),
     "ssh -t lab3 andon run --gpus 2 -- python x.py"),
    (("release", "--ssh=lab1", "k7"), "ssh -t lab1 andon release k7"),
    (("jobs", "--ssh", "lab1", "pause"), "ssh -t lab1 andon jobs pause"),
    (("alerts", "silence", "--ssh", "lab1", "a b", "2h"), "ssh -t lab1 andon alerts silence"),
    (("kill", "7", "--ssh", "lab1"), "ssh -t lab1 andon kill 7"),
)  # fmt: skip


@pytest.mark.parametrize(("words", "line"), CHANGING, ids=lambda one: one[0])
def test_what_changes_something_is_to_be_typed_there(
    hosts: SshHosts, words: tuple[str, ...], line: str
) -> None:
    done = andon(hosts, *words)
    assert done.returncode in (2, 125)
    assert "from here andon only reads other machines: run it there" in done.stderr
    assert line in done.stderr
    assert running_ssh(hosts) == []


def connections(hosts: SshHosts, name: str) -> int:
    """How many were made to a host so far."""
    return (hosts.folder / f"log-{name}").read_text().count("Accepted publickey")


def test_watch_keeps_one_connection_and_makes_a_lost_one_again(hosts: SshHosts) -> None:
    before = connections(hosts, "lab2")
    words = ("watch", "--ssh", "lab2", "-i", "500ms", "-n", "4", "--format", "jsonl")
    with hosts.begun(*words) as watching:
        assert watching.stdout is not None
        lines = [watching.stdout.readline() for _ in range(2)]
        assert connections(hosts, "lab2") - before == 1
        hosts.cut("lab2")
        lines += watching.stdout.readlines()
        assert watching.wait(60) == 0
    assert [json.loads(line)["node"] for line in lines] == ["lab2"] * 4
    assert connections(hosts, "lab2") - before == 2
    assert running_ssh(hosts) == []


def test_top_shows_a_host_live_and_goes_on_after_a_lost_connection(
    hosts: SshHosts, tmp_path: Path
) -> None:
    need("tmux")
    with Tmux(tmp_path, 110, 30, hosts.surroundings()) as window:
        window.type(f"{sys.executable} -m andon.cli top --ssh lab2 -i 500ms", "Enter")
        wait_until(lambda: "lab2 · All 4 GPUs" in window.screen(), "its GPUs")
        before = connections(hosts, "lab2")
        hosts.cut("lab2")
        wait_until(lambda: connections(hosts, "lab2") > before, "the next connection")
        clock = window.screen().split("\n")[0].split()[-1]
        wait_until(lambda: clock not in window.screen().split("\n")[0], "the next reading")
        assert "lab2 · All 4 GPUs" in window.screen()
        window.type("q")
        wait_until(lambda: "rc 0 $" in window.screen(), "its end")
    wait_until(lambda: running_ssh(hosts) == [], "its ssh to end")


@pytest.mark.long
def test_of_two_hundred_hosts_the_dead_keep_no_other_from_answering(hosts: SshHosts) -> None:
    dead, alive = [f"dead{n}" for n in range(150)], [f"live{n}" for n in range(50)]
    many = hosts.add("many", andon="smi")
    with silent_port() as port:
        for name in dead:
            hosts.alias(name, port)
        for name in alive:
            hosts.alias(name, many)
        found = asked(hosts, ",".join((*dead, *alive)), "--timeout", "100")
    assert found["code"] == 1
    assert all(found[name]["answered"] for name in alive)
    assert {found[name]["reason"].partition(" (")[0] for name in dead} == {
        "connection timed out after 5 s"
    }
    assert running_ssh(hosts) == []


def test_watch_over_several_hosts_shows_all_and_the_failed(hosts: SshHosts) -> None:
    done = andon(hosts, "watch", "--ssh", "lab1,lab3,lab5", "-n", "1", "--timeout", "40")
    begins = [line.split()[0] for line in done.stdout.splitlines()]
    assert [one for one in dict.fromkeys(begins) if one != "HOST"] == ["lab1", "lab3", "lab5"]
    assert done.returncode == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_stays_behind_here_or_there(hosts: SshHosts, number: signal.Signals) -> None:
    with hosts.begun("status", "--ssh", "silent,hangs", "--timeout", "60") as asking:
        wait_until(lambda: command_line("654321"), "the host to begin")
        asking.send_signal(number)
        code = asking.wait(20)
    assert code == (130 if number is signal.SIGINT else -signal.SIGKILL)
    wait_until(lambda: running_ssh(hosts) == [], "every ssh to end")
    wait_until(lambda: not command_line("654321"), "the command there to end")


def test_a_session_that_is_killed_in_the_middle_is_a_lost_connection(hosts: SshHosts) -> None:
    with hosts.begun("status", "--ssh", "silent", "--timeout", "60") as asking:
        wait_until(lambda: command_line("654321"), "the host to begin")
        hosts.cut("silent")
        assert asking.wait(20) == 3
        assert asking.stdout is not None
        assert "the connection was lost" in asking.stdout.read()
    wait_until(lambda: not command_line("654321"), "the command there to end")


@pytest.fixture
def network() -> Iterator[Sequence[str]]:
    """A network of its own, with only a loopback; returns what a command in it begins with."""
    need("unshare", "nsenter", "ip")
    words = ("unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec cat")
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"up\n"
        yield ("nsenter", f"--net=/proc/{holder.pid}/ns/net")
        holder.stdin.close()


def test_a_network_that_is_cut_costs_a_line_and_a_watch_goes_on_afterwards(
    network: Sequence[str], tmp_path: Path
) -> None:
    need_root()
    hosts = SshHosts(tmp_path, 28400)
    hosts.inside = network
    try:
        hosts.add("cut")
        log = tmp_path / "log-cut"
        wait_until(lambda: "listening" in log.read_text(), "sshd to listen")
        words = ("watch", "--ssh", "cut", "-i", "500ms", "--format", "jsonl")
        with hosts.begun(*words, inside=network) as watching:
            assert watching.stdout is not None
            first = json.loads(watching.stdout.readline())
            subprocess.run([*network, "ip", "link", "set", "lo", "down"], check=True)
            away = andon(hosts, "status", "--ssh", "cut", "--timeout", "2", inside=network)
            subprocess.run([*network, "ip", "link", "set", "lo", "up"], check=True)
            assert away.returncode == 3
            assert re.match("cut +(no answer|connection timed out) after [12] s", away.stdout)
            later = json.loads(watching.stdout.readline())
            assert later["at"] > first["at"]
    finally:
        hosts.close()


def test_nothing_is_forwarded_whatever_the_configuration_says(hosts: SshHosts) -> None:
    asks = subprocess.run(
        [str(hosts.bin / "ssh"), "-o", "ForwardAgent=yes", "-G", "lab1"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "forwardagent yes" in asks, "this ssh takes such a configuration"
    from andon.node.ssh.script import ssh_command

    words = list(ssh_command("lab1", 5.0))
    given = ["-o", "BatchMode=yes"]
    assert words[1:3] == given
    assert words[-4:] == ["-T", "--", "lab1", "sh"]
    told = subprocess.run(
        [str(hosts.bin / "ssh"), *words[1:-4], "-o", "ForwardAgent=yes", "-G", "lab1"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for line in ("forwardagent no", "forwardx11 no", "batchmode yes", "clearallforwardings yes"):
        assert line in told


AHEAD = (
    STATUS, LEASES, ("jobs", "--json", "--look"), ("runs", "--json", "-n", "1000"),
    ("alerts", "--json", "--since", "1s"), ("alerts", "rules", "--json"),
    ("alerts", "rules", "thermal", "--json"), ("devices", "--topology", "--json"),
    ("history", "--json", "--metric", "utilization_percent", "--points", "1"),
)  # fmt: skip


class Remembering(SshHost):
    """Asks each question once, most of them together: what is checked is how answers are read."""

    answers: ClassVar[dict[Sequence[str], Printed]] = {}

    def ask(self, *commands: Sequence[str]) -> list[Printed]:
        if not self.answers:
            self.answers.update(zip(AHEAD, super().ask(*AHEAD), strict=True))
        if new := [one for one in commands if one not in self.answers]:
            self.answers.update(zip(new, super().ask(*new), strict=True))
        return [self.answers[one] for one in commands]


class TestSsh(NodeContract):
    """The contract of nodes; what changes something is refused."""

    @pytest.fixture
    def node(self, lab2: SshHosts, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
        monkeypatch.setenv("PATH", f"{lab2.bin}:{os.environ['PATH']}")
        settings = load_settings({}).settings
        made = SshNode(Remembering("lab2", seconds=60.0), lambda: rulebook(settings))
        yield made
        made.close()


def test_every_command_counts_the_same_free_devices(hosts: SshHosts) -> None:
    there = ("--ssh", "lab1", "--timeout", "40")
    counted = {
        words: andon(hosts, *words, *there).stdout.splitlines()[-1].rpartition(", ")[2]
        for words in (("status",), ("why", "--seconds", "0"))
    }
    assert set(counted.values()) == {"1 GPU free"}, counted


def test_more_devices_than_any_host_has_are_unavailable(hosts: SshHosts) -> None:
    many = andon(hosts, "free", "--gpus", "99", "--ssh", "lab1", "--timeout", "40")
    assert many.returncode == 3, many.stdout


def test_none_free_now_has_the_exit_code_that_it_has_on_this_machine(hosts: SshHosts) -> None:
    none = andon(hosts, "free", "--gpus", "1", "--ssh", "lab3", "--timeout", "40")
    assert none.returncode == 1, none.stdout


def test_a_hint_about_another_host_names_it(hosts: SshHosts) -> None:
    shown = andon(hosts, "status", "--ssh", "hot", "--timeout", "40").stdout
    assert "andon why" in shown, shown
    hints = [line for line in shown.splitlines() if "andon why" in line]
    assert all("--ssh hot" in hint for hint in hints)


def test_free_devices_of_another_host_have_a_model(hosts: SshHosts) -> None:
    assert "T4" in andon(hosts, "free", "--ssh", "lab1", "--timeout", "40").stdout
