"""deploy/docker: the image is built and run by a real engine, on a base of this machine's files."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from importlib import metadata
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY, need
from tests.integration.parts import PATH, Docker, docker_engine, need_root
from tests.standin import StandIn, StandInProcess
from tests.support.waiting import wait_for

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="containers of Linux"),
    pytest.mark.timeout(400),  # an image is built
]
DEPLOY = REPOSITORY / "deploy/docker"
PATIENCE_SECONDS = 120.0
CLOSED = ("--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges")
LEFT_OUT = {
    "test", "tests", "idlelib", "tkinter", "lib2to3", "turtledemo", "ensurepip", "site-packages",
    "dist-packages", "pydoc_data",
}  # fmt: skip


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:
    need("dockerd", "docker", "busybox")
    need_root()
    overlay = "overlay" in Path("/proc/filesystems").read_text().split()
    storage = "overlay2" if overlay else "vfs"
    with docker_engine(tmp_path_factory.mktemp("docker"), storage) as engine:
        yield engine


@pytest.fixture(scope="module")
def image(docker: Docker, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image of deploy/docker, with this machine's Python as its base and no network."""
    folder = tmp_path_factory.mktemp("build")
    docker("import", str(_base(folder)), "base")
    context = folder / "context"
    shutil.copytree(DEPLOY, context / "deploy/docker")
    (context / "dist").mkdir()
    wheel = "import hatchling.build as b, sys; b.build_wheel(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", wheel, str(context / "dist")],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        timeout=120,
    )
    arguments = ("--build-arg=BASE=base", "--build-arg=PIP_OPTIONS=--no-index --no-deps")
    command = [
        "docker", "-H", f"unix://{docker.socket}", "build", "--network=none", *arguments,
        "--tag=andon", f"--file={context}/deploy/docker/Dockerfile", str(context),
    ]  # fmt: skip
    env = {**os.environ, "DOCKER_BUILDKIT": "0"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return "andon"


def test_it_serves_without_root_and_is_healthy(docker: Docker, image: str) -> None:
    options = ("--detach", "--network=none", "--health-interval=1s", *CLOSED)
    name = docker("run", *options, image, "serve", "--host", "0.0.0.0", "--simulate", "2")
    try:
        state = "{{.State.Status}} {{.State.Health.Status}}"
        wait_for(
            lambda: docker("inspect", "--format", state, name) == "running healthy",
            PATIENCE_SECONDS,
            first_pause_seconds=0.5,
        )
        assert docker("exec", name, "id", "-u") == "26366"
    finally:
        docker("rm", "--force", "--volumes", name)


def test_a_container_without_gpus_says_how_it_gets_them(docker: Docker, image: str) -> None:
    """On standard output of doctor, and in the health that the board shows and Docker asks for."""
    found = docker("run", "--rm", "--network=none", *CLOSED, image, "doctor", check=False)
    assert "docker run --gpus all" in found
    options = ("--detach", "--network=none", "--health-interval=1s", "--health-retries=1", *CLOSED)
    name = docker("run", *options, image, "serve", "--host", "0.0.0.0")
    try:
        state = "{{.State.Health.Status}} {{json .State.Health.Log}}"
        wait_for(
            lambda: docker("inspect", "--format", state, name).startswith("unhealthy"),
            PATIENCE_SECONDS,
            first_pause_seconds=0.5,
        )
        assert "--gpus all" in docker("inspect", "--format", state, name)
    finally:
        docker("rm", "--force", "--volumes", name)


def test_pids_of_the_host_are_said_to_be_the_hosts(
    docker: Docker, image: str, standin: StandIn, library: Path
) -> None:
    standin.write(StandIn.devices(1))
    standin.change(0, processes=(StandInProcess(os.getpid(), memory=5 << 30),))
    for folder in (standin.folder, *standin.folder.parents[:-2]):
        folder.chmod(folder.stat().st_mode | 0o055)
    standin.folder.chmod(0o777)
    for file in standin.folder.iterdir():
        file.chmod(0o666)  # the stand-in counts calls in them
    mounts = [f"--volume={one}:{one}" for one in (standin.folder, library)]
    variables = [f"--env=STANDIN_FOLDER={standin.folder}", f"--env=LD_LIBRARY_PATH={library}"]
    options = ["--rm", "--network=none", "--gpus=all", *mounts, *variables]
    shown = json.loads(docker("run", *options, image, "ps", "--json"))["processes"]
    assert [(p["pid"], p["name"], p["memory_bytes"]) for p in shown] == [
        (os.getpid(), None, 5 << 30)
    ]
    assert "start it with --pid host" in docker("run", *options, image, "ps")
    assert "docker run --pid=host" in docker("run", *options, image, "doctor", check=False)


def test_the_compose_file_says_the_same() -> None:
    yaml = pytest.importorskip("yaml")
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    service = compose["services"]["andon"]
    assert (REPOSITORY / service["build"]["dockerfile"]).is_file()
    assert (DEPLOY / service["build"]["context"]).resolve() == REPOSITORY
    assert service["pid"] == "host"
    assert service["ports"] == ["127.0.0.1:26366:26366"]
    devices = service["deploy"]["resources"]["reservations"]["devices"]
    assert devices == [{"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}]
    assert "andon" in compose["volumes"]
    assert service["volumes"] == ["andon:/var/lib/andon"]  # no folder of the host is made


class _ImageTar:
    """The files of an image. An engine closes folders to users that a tar does not name."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar, self._named = tar, set[str]()

    def add(self, source: Path, target: str, **more: Any) -> None:
        self._parents(target)
        if target not in self._named:  # once: an engine refuses a path that comes twice
            self._named.add(target)
            self._tar.add(source, target.lstrip("/"), **more)

    def link(self, target: str, to: str) -> None:
        self._parents(target)
        made = tarfile.TarInfo(target.lstrip("/"))
        made.type, made.linkname = tarfile.SYMTYPE, to
        self._tar.addfile(made)

    def folder(self, name: str, mode: int = 0o755) -> None:
        if name not in self._named:
            self._named.add(name)
            made = tarfile.TarInfo(name)
            made.type, made.mode = tarfile.DIRTYPE, mode
            self._tar.addfile(made)

    def _parents(self, target: str) -> None:
        for one in list(Path(target.lstrip("/")).parents)[-2::-1]:
            self.folder(str(one))


def _base(folder: Path) -> Path:
    """An image with busybox, this Python, pip and what `andon[serve]` needs."""
    shelf = f"usr/lib/python{sysconfig.get_python_version()}"
    stdlib, packages = Path(sysconfig.get_path("stdlib")), _packages()
    busybox, python = shutil.which("busybox", path=PATH), Path(sys.executable).resolve()
    assert busybox
    with tarfile.open(folder / "base.tar", "w") as opened:
        tar = _ImageTar(opened)
        tar.folder("tmp", 0o1777)
        tar.folder("var")
        tar.folder("var/lib")
        tar.add(Path(busybox), "bin/busybox")
        for name in ("sh", "mkdir", "chown", "rm", "echo", "id"):
            tar.link(f"bin/{name}", "busybox")
        tar.add(python, "usr/bin/python3")
        tar.add(stdlib, shelf, filter=_kept)
        for file, target in packages:
            tar.add(file, f"{shelf}/site-packages/{target}")
        found = [python, *(stdlib / "lib-dynload").glob("*.so")]
        found += [file for file, _ in packages if ".so" in file.suffixes]
        listed = subprocess.run(["ldd", *map(str, found)], capture_output=True, text=True).stdout
        for library in sorted(set(re.findall(r"(/\S+)\s\(0x", listed))):
            tar.add(Path(library).resolve(), library)
    return folder / "base.tar"


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    parts = Path(entry.name).parts
    unwanted = LEFT_OUT.intersection(parts) or any(part.startswith("config-") for part in parts)
    unwanted = unwanted or entry.name.endswith((".a", ".opt-1.pyc", ".opt-2.pyc"))
    return None if unwanted else entry


def _packages() -> list[tuple[Path, str]]:
    """The files of pip and of everything that `andon[serve]` requires, andon itself left out."""
    wanted, seen = ["pip"], {"andon"}
    wanted += _required("andon", {"serve"})
    files: list[tuple[Path, str]] = []
    while wanted:
        name = wanted.pop().lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # for another system or Python
            continue
        wanted += _required(name, set())
        for file in found.files or ():
            place = Path(str(found.locate_file(file)))
            if place.is_file() and ".." not in file.parts:
                files.append((place, str(file)))
                if (compiled := Path(cache_from_source(str(place)))).is_file():
                    # Without it every start of Python in the image would compile its modules.
                    files.append((compiled, str(Path(file).parent / "__pycache__" / compiled.name)))
    return files


def _required(name: str, extras: set[str]) -> list[str]:
    out = []
    for text in metadata.requires(name) or ():
        asked = re.search(r"extra\s*==\s*['\"]([^'\"]+)", text)
        if asked is None or asked[1] in extras:
            plain = re.match(r"[A-Za-z0-9._-]+", text)
            extra = re.match(r"[^\[;]+\[([^\]]+)\]", text)
            assert plain
            if plain[0] == "andon" and extra:
                out += _required("andon", set(extra[1].split(",")))
            out.append(plain[0])
    return out
