"""Real parts for tests, each with its paths in a folder of its own, and ended in any case."""

import json
import os
import shutil
import socket
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from msgspec import Struct

from tests.support.waiting import wait_for

READY_SECONDS = 60.0
ANSWER_SECONDS = 120.0  # an engine on a busy machine imports an image
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def need_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may start it")


def wait_until(holds: Callable[[], object], what: str) -> None:
    """Look again until it holds; that it never does is a failure."""
    wait_for(holds, READY_SECONDS, what=what)


@contextmanager
def daemon(*command: str, log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program in the foreground, asked to end and then made to. Its input ends with the tests,
    also where they are killed."""
    with log.open("wb") as out:
        env = {**os.environ, "PATH": PATH, **environment}
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=out, env=env)
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        process.terminate()
        try:
            process.wait(READY_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def remove_cgroups(name: str) -> None:
    """A daemon leaves its empty cgroups behind."""
    for top in (*Path("/sys/fs/cgroup").glob(f"*/{name}"), Path("/sys/fs/cgroup") / name):
        folders = [path for path in top.rglob("*") if path.is_dir()] if top.is_dir() else []
        for folder in [*sorted(folders, reverse=True), top]:
            with suppress(OSError):
                folder.rmdir()


class Docker(Struct, frozen=True):
    """A Docker engine of its own, with one image in it: busybox, called `tiny`.

    It accepts requests for GPUs; `requested` has what they were, by container.
    """

    socket: str
    hooked: Path

    def requested(self) -> dict[str, str]:
        """NVIDIA_VISIBLE_DEVICES of each container that was started with GPUs, by its id, the
        latest last."""
        found: dict[str, str] = {}
        for file in sorted(self.hooked.glob("*.json"), key=lambda one: one.stat().st_mtime_ns):
            for value in json.loads(file.read_text())["process"]["env"]:
                if value.startswith("NVIDIA_VISIBLE_DEVICES="):
                    found[file.stem] = value.partition("=")[2]
        return found

    def __call__(self, *arguments: str, check: bool = True) -> str:
        command = ["docker", "-H", f"unix://{self.socket}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS)
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout.strip()

    @contextmanager
    def running(self, name: str, *options: str) -> Iterator[tuple[str, int]]:
        """A container that sleeps: its id, and the pid of its first process."""
        arguments = ("run", "--detach", "--name", name, "--network", "none", *options)
        number = self(*arguments, "tiny", "/bin/sleep", "600")
        try:
            yield number, int(self("inspect", "--format", "{{.State.Pid}}", name))
        finally:
            self("rm", "--force", name)


# Runs an engine until its own input ends, and removes every container before it ends the engine:
# they would outlive it. In a session of its own, so that it outlives a killed group of tests.
_ENGINE = """
host=$1; exec=$2; shift 2
trap : TERM
"$@" & engine=$!
read -r _
docker -H "$host" ps --all --quiet |
    xargs --no-run-if-empty timeout 30 docker -H "$host" rm --force --volumes
kill $engine
wait $engine
umount "$exec/netns/default" 2>/dev/null || :  # of containers on the host's network
"""


@contextmanager
def docker_engine(folder: Path, storage: str = "vfs") -> Iterator[Docker]:
    """No bridge, no firewall rules, no registry; cgroups by hand, since systemd may not run.

    `vfs` works everywhere and copies an image for every container; `overlay2` does not copy.
    """
    engine = Docker(str(folder / "docker.sock"), folder / "hooked")
    path = f"{_gpu_hook(folder)}:{PATH}"
    command = (
        "setsid", "sh", "-c", _ENGINE, "engine", f"unix://{engine.socket}",
        str(folder / "exec"),
        "dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none",
        f"--storage-driver={storage}", "--exec-opt=native.cgroupdriver=cgroupfs",
        f"--data-root={folder / 'data'}", f"--exec-root={folder / 'exec'}",
        f"--host=unix://{engine.socket}", f"--pidfile={folder / 'pid'}",
    )  # fmt: skip
    with daemon(*command, log=folder / "dockerd.log", PATH=path):
        wait_until(Path(engine.socket).is_socket, "the engine's socket")
        engine("version")
        engine("import", str(busybox_image(folder)), "tiny")
        yield engine


def _gpu_hook(folder: Path) -> Path:
    """A folder with the program for which the engine looks before it accepts requests for GPUs; it
    keeps the configuration of each container, named by its id."""
    (folder / "bin").mkdir()
    (folder / "hooked").mkdir()
    hook = folder / "bin" / "nvidia-container-runtime-hook"
    hook.write_text(
        "#!/bin/sh\n"
        'bundle=$(sed -n \'s/.*"bundle":"\\([^"]*\\)".*/\\1/p\')\n'
        f'cp "$bundle/config.json" "{folder}/hooked/$(basename "$bundle").json"\n'
    )
    hook.chmod(0o755)
    return hook.parent


def busybox_image(folder: Path) -> Path:
    """A tar that an engine can import: busybox, as `sh` and a few others."""
    busybox = shutil.which("busybox", path=PATH)
    assert busybox
    with tarfile.open(folder / "tiny.tar", "w") as tar:
        for name, mode in {"bin": 0o755, "dev": 0o755, "proc": 0o755, "tmp": 0o1777}.items():
            made = tarfile.TarInfo(name)
            made.type, made.mode = tarfile.DIRTYPE, mode
            tar.addfile(made)
        tar.add(busybox, "bin/busybox")
        for name in ("sh", "sleep", "touch", "cat", "id", "df", "env", "pwd"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return folder / "tiny.tar"
