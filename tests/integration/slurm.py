"""A real Slurm for tests: a controller and nodes on this machine, ended in any case."""

import json
import os
import secrets
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.conftest import need
from tests.integration.parts import (
    READY_SECONDS,
    daemon,
    free_port,
    need_root,
    remove_cgroups,
    wait_until,
)
from tests.support.waiting import wait_for


class Slurm(Struct, frozen=True):
    """A cluster whose nodes are all this machine."""

    nodes: tuple[str, ...]
    configuration: Path
    running_daemons: ExitStack
    daemons: dict[str, "subprocess.Popen[bytes]"]

    @property
    def folder(self) -> Path:
        return self.configuration.parent

    @property
    def environment(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.configuration)}

    def __call__(self, *command: str) -> str:
        env = {**os.environ, "SLURM_CONF": str(self.configuration)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    @contextmanager
    def without_controller(self) -> Iterator[None]:
        """Its controller is stopped meanwhile; jobs run on."""
        stopped = self.daemons["slurmctld"]
        stopped.terminate()
        stopped.wait(READY_SECONDS)
        try:
            yield
        finally:
            log = self.folder / "slurmctld.out"
            again = daemon("slurmctld", "-D", log=log, **self.environment)
            self.daemons["slurmctld"] = self.running_daemons.enter_context(again)
            wait_until(lambda: _is_up(self), "the controller")
            wait_until(lambda: _hears_its_nodes(self), "its nodes")  # jobs get no devices before

    @contextmanager
    def running(self, script: Path, *launcher: str) -> Iterator[tuple[str, int]]:
        """A job that sleeps: its number, and the pid of the process that it runs."""
        told = script.with_suffix(".pid")
        script.write_text(f"#!/bin/sh\necho $SLURM_JOB_ID $$ > {told}.new\nmv {told}.new {told}\n"
                          "exec sleep 600\n")  # fmt: skip
        script.chmod(0o755)
        env = {**os.environ, "SLURM_CONF": str(self.configuration)}
        client = subprocess.Popen([*launcher, script], env=env, stderr=subprocess.DEVNULL)
        try:
            wait_until(told.exists, "the job")
            job, pid = told.read_text().split()
            # In the middle of exec it has neither words nor variables.
            wait_until(lambda: b"600" in Path(f"/proc/{pid}/cmdline").read_bytes(), "its command")
            yield job, int(pid)
        finally:  # a job outlives the daemon that started it
            self("scancel", "--user=root")
            wait_for(lambda: not self("squeue", "--noheader"), READY_SECONDS, 0.3)
            client.terminate()
            client.wait(READY_SECONDS)


@contextmanager
def slurm_cluster(
    folder: Path,
    proctrack: str = "proctrack/linuxproc",
    task: str = "task/none",
    nodes: int = 1,
    gpus: int = 0,
    more: str = "",
    accounts: bool = False,
) -> Iterator[Slurm]:
    """Controller, nodes and munge, on loopback; cgroups, where used, are of version 1. The GPUs
    are files that no driver knows."""
    folder.chmod(0o755)
    # Cgroups are named after the node, and two modules may run side by side.
    kind = "n" if proctrack == "proctrack/linuxproc" else f"andon{os.getpid()}n"
    names = tuple(f"{kind}{number}" for number in range(1, nodes + 1))
    running = ExitStack()
    cluster = Slurm(names, folder / "slurm.conf", running, {})
    (folder / "munge.key").write_bytes(secrets.token_bytes(128))
    (folder / "munge.key").chmod(0o400)
    constrain = "ConstrainDevices=yes\n" if gpus and "cgroup" in task else ""
    cgroup = f"CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n{constrain}"
    (folder / "cgroup.conf").write_text(cgroup)
    (folder / "gres.conf").write_text(_gres(folder, names, gpus))
    ports = {"mariadbd": free_port(), "slurmdbd": free_port()} if accounts else {}
    conf = _slurm_conf(folder, names, proctrack, task, gpus)
    cluster.configuration.write_text(conf + (_accounting(folder, ports) if ports else "") + more)
    with running:
        for node in names:
            running.callback(remove_cgroups, f"slurm_{node}")
        for name, command in _slurm_daemons(folder, names, ports).items():
            log = folder / f"{name}.out"
            started = daemon(*command, log=log, **cluster.environment)
            cluster.daemons[name] = running.enter_context(started)
            if name in ports:
                wait_until(partial(_listens, ports[name]), name)
        wait_until((folder / "munge.sock").is_socket, "munge")
        wait_for(lambda: _is_idle(cluster), READY_SECONDS, 0.3)
        yield cluster


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Two nodes with four GPUs each, which no driver knows."""
    need_root()
    need("slurmctld", "slurmd", "sbatch", "munged")
    with slurm_cluster(tmp_path_factory.mktemp("slurm"), nodes=2, gpus=4) as found:
        yield found


class Login(Struct, frozen=True):
    """A person on a login node, who has configured nothing: their variables and their folder."""

    slurm: Slurm
    variables: dict[str, str]
    folder: Path

    def python(self, *words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, *words]
        return subprocess.run(
            command, env=self.variables, cwd=self.folder, capture_output=True, text=True
        )

    def done(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return self.python("-m", "andon", *words)

    def andon(self, *words: str, code: int = 0) -> str:
        """Returns what a command printed; of one that fails, its error output."""
        done = self.done(*words)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    def submit(self, *words: str) -> str:
        return self.andon("submit", "--on", "slurm", *words).strip()

    def jobs(self) -> dict[str, dict[str, Any]]:
        """Returns the jobs, by their names here, as Slurm knows them now."""
        for path in self.folder.glob("state/andon/nodes/*/jobs/clusters/*.json"):
            path.unlink(missing_ok=True)
        listed = json.loads(self.andon("jobs", "--all", "--json"))["jobs"]
        return {job["label"]: job for job in listed}

    def forget(self, job: str) -> None:
        """Hides a job that has ended from the commands, as Slurm does some minutes later."""
        program, number = self.folder / "bin" / "squeue", job.removeprefix("slurm:")
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{shutil.which('squeue')} \"$@\" | grep -v '^{number}'\n:\n")
        program.chmod(0o755)
        self.variables["PATH"] = f"{program.parent}:{os.environ['PATH']}"

    def ended(self, job: str) -> dict[str, Any]:
        """Waits for the end of a job; returns it."""
        wait_until(lambda: self.jobs()[job]["ended"] is not None, f"the end of {job}")
        return self.jobs()[job]


@pytest.fixture
def login(slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Login]:
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "home").mkdir()
    yield Login(
        slurm,
        {
            **os.environ,
            "HOME": str(tmp_path / "home"),
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "ANDON_LEASE_DIR": str(tmp_path / "leases"),
        },
        tmp_path,
    )
    slurm("scancel", "--quiet", "--user=root")
    wait_until(lambda: not slurm("squeue", "-h"), "the end of its jobs")


def _is_up(cluster: Slurm) -> bool:
    try:
        return " is UP" in cluster("scontrol", "ping")
    except AssertionError:
        return False


def _hears_its_nodes(cluster: Slurm) -> bool:
    """Whether all nodes have registered: until then they are unknown, or marked with a star."""
    states = cluster("sinfo", "-hN", "--format=%t").split()
    return not any(state.startswith("unk") or state.endswith("*") for state in states)


def _is_idle(cluster: Slurm) -> bool:
    try:
        listed = cluster("sinfo", "-hN", "--format=%N %t").splitlines()  # for each partition
        return set(listed) == {f"{node} idle" for node in cluster.nodes}
    except AssertionError:
        return False


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def _accounting(folder: Path, ports: Mapping[str, int]) -> str:
    """Makes an empty database; returns the lines of slurm.conf. Only these daemons, on loopback,
    know it."""
    where = ("--no-defaults", "--user=root", f"--datadir={folder / 'database'}")
    made = ("mariadb-install-db", *where, "--skip-test-db")
    subprocess.run(made, check=True, capture_output=True)
    path = folder / "slurmdbd.conf"
    path.write_text(f"""
AuthType=auth/munge
AuthInfo=socket={folder / "munge.sock"}
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={ports["slurmdbd"]}
SlurmUser=root
PidFile={folder / "slurmdbd.pid"}
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={ports["mariadbd"]}
StorageUser=root
""")
    path.chmod(0o600)
    return f"""
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={ports["slurmdbd"]}
AccountingStoragePass={folder / "munge.sock"}
AccountingStorageTRES=gres/gpu
"""


def _slurm_daemons(
    folder: Path, nodes: Sequence[str], ports: Mapping[str, int]
) -> dict[str, tuple[str, ...]]:
    munge = {"key": "munge.key", "socket": "munge.sock", "pid": "munge.pid", "seed": "munge.seed"}
    where = [
        f"--{name if name == 'socket' else f'{name}-file'}={folder / path}"
        for name, path in munge.items()
    ]
    log = f"--log-file={folder / 'munged.log'}"
    return {
        "munged": ("munged", "--force", "--foreground", *where, log),
        **(_database(folder, ports["mariadbd"]) if ports else {}),
        "slurmctld": ("slurmctld", "-D", "-c"),
        **{node: ("slurmd", "-D", "-N", node) for node in nodes},
    }


def _database(folder: Path, port: int) -> dict[str, tuple[str, ...]]:
    where = (f"--datadir={folder / 'database'}", f"--socket={folder / 'database.sock'}")
    kind = ("--no-defaults", "--user=root", "--skip-grant-tables", "--bind-address=127.0.0.1")
    return {
        "mariadbd": ("mariadbd", *kind, *where, f"--port={port}"),
        "slurmdbd": ("slurmdbd", "-D"),
    }


def _gres(folder: Path, nodes: Sequence[str], gpus: int) -> str:
    lines = []
    for first, node in enumerate(nodes if gpus else ()):
        for number in range(gpus):
            path = folder / f"gpu-{node}-{number}"
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(195, first * gpus + number))
            lines.append(f"NodeName={node} Name=gpu Type=a100 File={path}\n")
    return "".join(lines)


def _slurm_conf(folder: Path, nodes: Sequence[str], proctrack: str, task: str, gpus: int) -> str:
    (folder / "state").mkdir()
    for node in nodes:
        (folder / f"spool-{node}").mkdir()
    gres = f" Gres=gpu:a100:{gpus}" if gpus else ""
    machines = "\n".join(
        f"NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={free_port()} "
        f"CPUs=8 RealMemory=4000 State=UNKNOWN{gres}"
        for node in nodes
    )
    return f"""
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={free_port()}
AuthType=auth/munge
AuthInfo=socket={folder / "munge.sock"}
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder / "state"}
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder / "slurmctld.pid"}
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType={proctrack}
TaskPlugin={task}
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
KillWait=1
MessageTimeout=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
{"GresTypes=gpu" if gpus else ""}
{machines}
PartitionName=all Nodes=ALL Default=YES State=UP
"""
