"""`andon run --image` and `andon lease --image`: a real Docker engine, GPUs of the stand-in."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from andon.engines.containers import DockerEngine
from andon.host.processes.kin import group_members
from andon.jobs.folder import JobsFolder, jobs_path
from andon.jobs.queue import Queue
from andon.leases.book.lease_book import Book
from andon.model.execution import ContainerOptions, Submitter, WorkOrder
from andon.model.job.facts import JobState
from andon.ports import ContainerEngine
from tests.integration.conftest import Outcome, andon, is_alive
from tests.integration.contained import LONG_SECONDS, NO_NETWORK, containers, first_pid
from tests.integration.leasing import end_of, entries, held, records, running
from tests.integration.parts import Docker
from tests.integration.queueing import until_settled
from tests.standin import StandIn, StandInProcess
from tests.standin.node import StandInMig
from tests.support.engine_contract import ContainerEngineContract
from tests.support.waiting import wait_for

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="containers of Linux"),
    pytest.mark.timeout(300),  # several commands and containers one after the other
]
ALICE = 65_533


def in_image(*words: str) -> tuple[str, ...]:
    """`andon run …` up to the command."""
    return ("run", "--image", "tiny", NO_NETWORK, *words, "--")


def run(*words: str) -> Outcome:
    return andon(*words, timeout_seconds=LONG_SECONDS)


class TestDockerEngine(ContainerEngineContract):
    """The contract, with a real engine."""

    @pytest.fixture(autouse=True)
    def _engine(self, work: Path) -> None:
        self._place = str(work)

    @pytest.fixture
    def engine(self) -> ContainerEngine:
        return DockerEngine()

    def order(self, command: Sequence[str], label: str) -> WorkOrder:
        return WorkOrder(
            tuple(command),
            self._place,
            label,
            environment={"GREETING": "hello"},
            submitter=Submitter(os.getuid(), os.getgid()),
            container=ContainerOptions("tiny", options=("--network=none",)),
        )


def test_it_runs_in_the_folder_with_what_people_expect(docker: Docker, work: Path) -> None:
    models = work.parent / "models"
    models.mkdir()
    script = "id -u; pwd; echo $HOME; touch $HOME/x made; df -k /dev/shm; env; exit 3"
    options = ("--model-folder", str(models), "--mount", f"{models}:/data:ro")
    done = run(*in_image("--gpus", "2", *options), "sh", "-c", script + f"; touch {models}/no")
    lines = done.out.splitlines()
    assert done.code == 3, done
    assert lines[:3] == ["0", str(work), "/tmp/andon-home"]
    assert (work / "made").exists()
    shm_kib = int(lines[4].split()[1])
    memory_kib = int(Path("/proc/meminfo").read_text().split()[1])
    assert abs(shm_kib - memory_kib // 2) < 1024
    variables = dict(line.split("=", 1) for line in lines if "=" in line)
    assert "CUDA_VISIBLE_DEVICES" not in variables
    uuids = [device.uuid for device in StandIn.devices(8)]
    assert set(list(docker.requested().values())[-1].split(",")) <= set(uuids)
    assert sorted(variables["NVIDIA_VISIBLE_DEVICES"].split(","))[0].startswith("GPU-")
    assert len(variables["NVIDIA_VISIBLE_DEVICES"].split(",")) == 2
    assert containers(docker) == []
    assert list((work.parent / "homes").iterdir()) == []
    assert held() == []
    (record,) = records(work.parent / "state")
    assert "the image tiny" in json.dumps(record)


def test_a_mig_instance_is_requested_by_its_own_uuid(
    docker: Docker, node: StandIn, work: Path
) -> None:
    mig = "MIG-1d7f1c52-5d0e-4f3a-9c37-2f6f0a1d4e75"
    node.change(0, mig_mode=1, migs=(StandInMig(mig, gi=7),))
    done = run(*in_image("--device", mig), "env")
    assert f"NVIDIA_VISIBLE_DEVICES={mig}" in done.out.splitlines(), done


def test_input_reaches_the_command_and_without_a_device_it_needs_no_lease(
    docker: Docker, work: Path
) -> None:
    command = [sys.executable, "-m", "andon.cli", *in_image("--gpus", "0"), "sh", "-c", "cat; env"]
    done = subprocess.run(command, input="hello\n", capture_output=True, text=True, timeout=90)
    assert (done.returncode, done.stdout.startswith("hello\n")) == (0, True), done
    assert "NVIDIA_VISIBLE_DEVICES" not in done.stdout
    assert containers(docker) == []


def test_a_lease_knows_its_container_and_release_ends_it(
    docker: Docker, node: StandIn, work: Path
) -> None:
    with running(*in_image("--device", "3"), "sleep", "1000") as supervisor:
        pid = first_pid(docker)
        assert [e.lease.containers for e in entries()] == [tuple(containers(docker))]
        node.change(3, processes=(StandInProcess(pid, memory=5 << 30),))
        shown = run("ps", "--json").json()["processes"]
        assert [(p["pid"], p["lease"]) for p in shown] == [(pid, held()[0])]
        (row,) = run("leases", "--json").json()["leases"]
        assert row["used_bytes"] == 5 << 30, row
        assert "squatter" not in run("alerts", "--json").out
        node.change(3, processes=())
        assert run("release", held()[0]).code == 0
        ended = end_of(supervisor, LONG_SECONDS)
        assert ended.code == 137, ended
    assert (containers(docker), held()) == ([], [])


def test_killed_with_its_client_it_is_orphaned_and_can_be_adopted(
    docker: Docker, work: Path
) -> None:
    script = "while ! test -e go; do sleep 0.1; done; echo late; exit 5"
    with running(*in_image("--gpus", "8"), "sh", "-c", script) as supervisor:
        pid = first_pid(docker)
        name = held()[0]
        client = _children(supervisor.pid, "docker")
        os.kill(supervisor.pid, signal.SIGKILL)
        supervisor.wait(LONG_SECONDS)
        (row,) = run("leases", "--json").json()["leases"]
        assert row["state"] == "held"  # its client has inherited the lock
        for one in client:
            os.kill(one, signal.SIGKILL)
        wait_for(lambda: not any(map(is_alive, client)), LONG_SECONDS)
        (row,) = run("leases", "--json").json()["leases"]
        assert row["state"] == "orphaned"
        assert run("run", "--no-wait", "--", "true").code == 125  # withheld
        assert f"andon lease adopt {name}" in run("release", name).err
        assert is_alive(pid)
        with running("lease", "adopt", name) as adopter:
            wait_for(lambda: held() == [name], LONG_SECONDS)
            (work / "go").touch()
            ended = end_of(adopter, LONG_SECONDS)
        assert (ended.code, ended.out) == (5, "late\n"), ended
    assert (containers(docker), held()) == ([], [])
    assert run("run", "--no-wait", "--", "true").code == 0


def test_the_container_of_a_killed_supervisor_is_removed_by_the_next(
    docker: Docker, work: Path
) -> None:
    with running(*in_image(), "sleep", "1000") as supervisor:
        pid = first_pid(docker)
        client = _children(supervisor.pid, "docker")
        for one in (supervisor.pid, *client):
            os.kill(one, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(pid), LONG_SECONDS)
    assert len(containers(docker)) == 1
    assert run("run", "--", "true").code == 0  # sweeps the book
    assert run(*in_image(), "sh", "-c", "true").code == 0
    assert containers(docker) == []


def test_its_time_limit_ends_it_and_frees_its_devices(docker: Docker, work: Path) -> None:
    stubborn = "trap '' TERM; while true; do sleep 1; done"
    done = run(*in_image("--for", "1s"), "sh", "-c", stubborn)
    assert (done.code, "expired" in done.err) == (137, True), done
    assert (containers(docker), held()) == ([], [])


def test_host_memory_is_told_from_device_memory(docker: Docker, work: Path) -> None:
    options = ("--container-option=--memory=16m", "--container-option=--memory-swap=16m")
    # Only when it runs: an engine misses what the kernel kills while it is still being started.
    waits = "while ! test -e go; do sleep 0.1; done"
    grows = f"{waits}; x=aaaaaaaaaaaaaaaa; while true; do x=$x$x; done"
    with running(*in_image(*options), "sh", "-c", grows) as supervisor:
        first_pid(docker)
        (work / "go").touch()
        done = end_of(supervisor, LONG_SECONDS)
    assert (done.code, "out of host memory (OOMKilled)" in done.err) == (137, True), done
    says = "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.' >&2"
    done = run(*in_image(), "sh", "-c", f"{says}; exit 1")
    assert (done.code, "out of GPU memory" in done.err) == (1, True), done
    ends = sorted(lines[-1]["state"] for lines in records(work.parent / "state"))
    assert ends == ["device_out_of_memory", "host_out_of_memory"]


def test_what_fails_leaves_nothing_and_says_one_sentence(
    docker: Docker, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "items").write_text("a\n")
    items = ("--items", "items", "--")
    rows = [
        (in_image(), ("nosuch",), 127, "nosuch: command not found in the image tiny"),
        (in_image(), ("/tmp",), 126, "not executable in the image tiny"),
        (("run", "--image", "missing", "--"), ("x",), 125, "there is no image 'missing'"),
        (("map", "--image", "missing", *items), ("x",), 125, "there is no image 'missing'"),
        (in_image("--mount", "nowhere"), ("x",), 125, "there is no folder"),
        (in_image("--container-option=--frob"), ("x",), 125, "docker has no option --frob"),
        (in_image("--container-user", "nosuchuser"), ("id",), 125, "has no user nosuchuser"),
    ]
    wrong: list[object] = []
    for words, command, code, sentence in rows:
        done = run(*words, *command)
        if done.code != code or sentence not in done.err or "Traceback" in done.err:
            wrong.append((words, done))
        if containers(docker) or held():
            wrong.append((words, "left behind"))
    assert wrong == []
    monkeypatch.setenv("DOCKER_HOST", f"unix://{work}/nothing.sock")
    monkeypatch.setenv("ANDON_LEASE_DIR", str(work.parent / "unused"))
    for away in (run(*in_image(), "x"), run("map", "--image", "tiny", *items, "x")):
        assert (away.code, "the Docker engine is not running" in away.err) == (125, True), away
    with monkeypatch.context() as poor:
        poor.setenv("PATH", "/nonexistent")
        none = run(*in_image(), "x")
    assert (none.code, "neither docker nor podman is installed" in none.err) == (125, True), none
    assert not (work.parent / "unused").exists()  # no device was claimed


AS_ALICE = """
import ctypes, encodings.ascii, os, pwd, sys, tempfile
from andon.model.execution import ContainerOptions, Submitter, WorkOrder
from andon.errors import AndonError
from andon.engines.containers import DockerEngine
from andon.host.processes.kin import myself, ticks_now
from andon.leases.book.lease_book import Book
from andon.model.lease import Lease, LeaseKind, Share
uid, uuid, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
os.setgroups([]); os.setgid(uid); os.setuid(uid)
options = ContainerOptions("tiny", options=("--network=none",))
script = "id -u; id -g; touch $HOME/x mine && echo written; exec sleep 1000"
order = WorkOrder(("sh", "-c", script), folder, "alice", submitter=Submitter(uid, uid),
                  container=options)
engine = DockerEngine()
try:
    engine.check(order)
except AndonError as error:
    sys.exit(error.reason)
lease = Lease("alice", (Share(uuid, 0),), myself(), LeaseKind.COMMAND, 1.0, ticks_now())
held = Book().write_lease(lease)
work = engine.create(order)
held.hold.name_container(work.id)
engine.client(work)
os._exit(0)  # as if it were killed: the lock is gone, the container runs
"""


def test_another_user_needs_permission_and_its_containers_are_its_own(
    docker: Docker, work: Path
) -> None:
    socket = Path(docker.socket)
    mode = socket.stat().st_mode
    for folder in (work, *work.parents[:-2], *socket.parents[:-2]):
        folder.chmod(folder.stat().st_mode | 0o055)
    work.chmod(0o777)
    Book()  # root's, as `andon setup` makes it
    uuid = next(iter(StandIn.devices(1))).uuid
    command = [sys.executable, "-c", AS_ALICE, str(ALICE), uuid, str(work)]
    try:
        socket.chmod(0o600)
        denied = subprocess.run(command, capture_output=True, text=True, timeout=LONG_SECONDS)
        assert denied.stderr == "no permission to use the Docker engine's socket\n", denied
        socket.chmod(0o666)
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONG_SECONDS)
        assert (done.returncode, done.stderr) == (0, ""), done
    finally:
        socket.chmod(mode)
    (identity,) = containers(docker)
    wait_for(lambda: "written" in docker("logs", identity), LONG_SECONDS, 0.3)
    assert docker("logs", identity).split() == [str(ALICE), str(ALICE), "written"]
    assert (work / "mine").stat().st_uid == ALICE
    (row,) = run("leases", "--json").json()["leases"]
    assert (row["id"], row["state"]) == ("alice", "orphaned")
    docker("kill", identity)
    wait_for(lambda: run("leases", "--json").json()["leases"] == [], LONG_SECONDS)


def test_lease_gives_the_container_a_terminal(docker: Docker, work: Path) -> None:
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "andon.cli", "lease", "--image", "tiny", NO_NETWORK]
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, process_group=0)
    os.close(slave)
    try:
        first_pid(docker)
        os.write(master, b"test -t 0 && echo it-is-$((40 + 2)); exit 4\n")
        seen, end = b"", time.monotonic() + LONG_SECONDS
        while b"it-is-42" not in seen and time.monotonic() < end:
            with suppress(OSError):
                seen += os.read(master, 4096)
        assert b"it-is-42" in seen
        assert process.wait(LONG_SECONDS) == 4
    finally:
        process.kill()
        process.wait()
        os.close(master)
    assert (containers(docker), held()) == ([], [])


def _children(pid: int, name: str) -> list[int]:
    """The descendants of a process with this name."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            stat = (folder / "stat").read_text()
            parent = int(stat.rpartition(")")[2].split()[1])
            if parent == pid and (folder / "comm").read_text().strip() == name:
                found.append(int(folder.name))
    return found


def test_a_job_runs_in_a_container_and_cancelling_it_removes_the_container(
    docker: Docker, work: Path
) -> None:
    options = ("--image", "tiny", NO_NETWORK, "--grace", "1s")
    number = run("submit", *options, "--", "sh", "-c", "env; touch made; exit 6").out.strip()
    assert run("logs", number, "--follow").code == 0
    wait_for(lambda: _job(number)["state"] == "failed", LONG_SECONDS)
    assert (_job(number)["exit_code"], (work / "made").exists()) == (6, True)
    said = run("logs", number).out
    assert f"ANDON_JOB={number}" in said
    assert "CUDA_VISIBLE_DEVICES" not in said
    stubborn = "trap '' TERM; while true; do sleep 1; done"
    number = run("submit", *options, "--", "sh", "-c", stubborn).out.strip()
    first_pid(docker)
    wait_for(lambda: [e.lease.containers for e in entries()] == [tuple(containers(docker))])
    run("cancel", number)
    wait_for(lambda: _job(number)["state"] == "cancelled", LONG_SECONDS)
    wait_for(lambda: (containers(docker), held()) == ([], []), LONG_SECONDS)
    missing = run("submit", "--image", "missing", "--", "x")
    assert "there is no image 'missing'" in missing.err


def test_a_job_whose_container_outlives_its_supervisor_gets_another_one(
    docker: Docker, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First the supervisor alone is killed, then its successor together with its client."""
    monkeypatch.setenv("ANDON_JOBS_IDLE", "1s")
    script = "echo one; while ! test -e go; do sleep 0.1; done; echo two; exit 6"
    options = ("--image", "tiny", NO_NETWORK, "--retry-lost")
    number = int(run("submit", *options, "--", "sh", "-c", script).out)
    folder = JobsFolder(jobs_path())
    output = folder.output(number, 1)
    wait_for(lambda: output.exists() and output.read_text() == "one\n", LONG_SECONDS)
    pid, lease = first_pid(docker), held()
    for both in (False, True):
        claim = Queue(folder).jobs[number].attempts[0].claim
        client = group_members({claim.group})[claim.group]
        for one in (claim.pid, *(member.pid for member in client if both)):
            os.kill(one, signal.SIGKILL)

        def is_adopted(killed: int = claim.pid) -> bool:
            last = Queue(folder).jobs[number].last
            return last is not None and last.locked and last.claim.pid != killed

        wait_for(is_adopted, LONG_SECONDS)
        assert (is_alive(pid), held()) == (True, lease)
    (work / "go").touch()
    queue = until_settled(folder, LONG_SECONDS)
    (view,) = queue.views([number])
    assert (view.state, view.exit_code, view.attempts) == (JobState.FAILED, 6, 1)
    assert output.read_text() == "one\ntwo\n"
    wait_for(lambda: (containers(docker), held()) == ([], []), LONG_SECONDS)


def _job(number: str) -> dict[str, object]:
    jobs: list[dict[str, object]] = run("jobs", "--all", "--json").json()["jobs"]
    return next(job for job in jobs if str(job["number"]) == number)


def test_a_server_under_test_runs_in_a_container(docker: Docker, work: Path) -> None:
    """The image's own HTTP server; what answers is a script beside it."""
    answer = work / "cgi-bin" / "chat"
    answer.parent.mkdir()
    answer.write_text(
        "#!/bin/sh\nprintf 'Content-Type: application/json\\r\\n\\r\\n'\n"
        """echo '{"choices": [{"text": "word"}], "usage": {"completion_tokens": 3}}'\n"""
    )
    answer.chmod(0o755)
    (work / "health").touch()
    command = ["busybox", "httpd", "-f", "-p", "127.0.0.1:{port}", "-h", str(work)]
    server = {"image": "tiny", "command": command, "url": "http://127.0.0.1:{port}/cgi-bin"}
    load = {"model": "m", "concurrency": 1, "requests": 2, "stream": False}
    document = {"name": "serving", "server": server, "load": [load]}
    (work / "bench.json").write_text(json.dumps(document))
    done = run("benchmark", "bench.json")
    said = run("logs", "serving").out
    assert done.code == 0, (done, said)
    assert "1 at once: 2 of 2" in said
    assert len(list(docker.requested().values())[-1].split(",")) == 1
    assert containers(docker) == []
    assert held() == []
