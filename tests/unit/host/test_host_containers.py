"""Names of containers, from an engine that answers over a socket as Docker does."""

import json
import os
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.host.processes.containers import (
    RETRY_SECONDS,
    ContainerInfo,
    ContainerNames,
    ask_engine,
    may_ask,
    names_from_logs,
    parse_engine,
    parse_log_name,
    usual_sockets,
)
from andon.host.processes.facts import ProcessTable
from andon.host.rules.attribution import Container, RuntimeNames
from andon.model.device import Process
from tests.support.replaced import fails
from tests.support.rows import rows

ID = "3f2a9c1b04de7c5a8f6e1d2b3c4a5968778695a4b3c2d1e0f9e8d7c6b5a49382"
OTHER = ID[::-1]
TRAINER = Container("docker", ID)
PATIENT = 20.0  # far more than an answer takes; a test that waits as long has failed


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Whoever asked has given up; that is what some of these tests are about."""


class Engine:
    """A socket that speaks as much of Docker as is asked of it."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.known: dict[str, object] = {ID: {"Name": "/trainer"}}
        self.asked: list[str] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                engine.asked.append(self.path)
                engine.may_answer.wait(PATIENT)
                found = engine.known.get(self.path.split("/")[2])
                self.send_response(200 if found is not None else 404)
                self.end_headers()
                self.wfile.write(json.dumps(found).encode())

            def address_string(self) -> str:
                return "a socket has none"

            def log_message(self, *_: object) -> None:
                pass

        self.server = Server(self.path, Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.002,))
        self.thread.start()

    def close(self) -> None:
        self.may_answer.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    opened = Engine(tmp_path / "docker.sock")
    yield opened
    opened.close()


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def names(engine: Engine, clock: Clock, tmp_path: Path) -> ContainerNames:
    return ContainerNames(tmp_path, {"docker": [engine.path]}, clock, PATIENT)


def test_a_container_is_called_what_its_engine_calls_it(names: ContainerNames) -> None:
    answer = names.look_up(TRAINER, PATIENT)
    assert (answer.names, answer.final) == (RuntimeNames("trainer"), True)


def test_a_name_is_asked_for_once(names: ContainerNames, engine: Engine, clock: Clock) -> None:
    for _ in range(3):
        assert names.look_up(TRAINER, PATIENT).names == RuntimeNames("trainer")
        clock.now += 10 * RETRY_SECONDS
    assert engine.asked == [f"/containers/{ID}/json"]


def test_a_container_that_nobody_knows_is_asked_for_again_after_a_minute(
    names: ContainerNames, engine: Engine, clock: Clock
) -> None:
    other = Container("docker", OTHER)
    for _ in range(3):
        answer = names.look_up(other, PATIENT)
        assert (answer.names, answer.final) == (None, False)
    assert len(engine.asked) == 1
    clock.now += RETRY_SECONDS
    engine.known[OTHER] = {"Name": "/late"}
    assert names.look_up(other, PATIENT).names == RuntimeNames("late")


def test_an_engine_that_hangs_costs_no_more_than_the_timeout(
    names: ContainerNames, engine: Engine
) -> None:
    engine.may_answer.clear()
    answer = names.look_up(TRAINER, 0.01)
    assert (answer.names, answer.final) == (None, False)
    assert answer.waited_seconds < 5.0
    assert names.look_up(TRAINER).names is None  # without a timeout: at once
    assert len(engine.asked) <= 1, "the question is not put twice"
    engine.may_answer.set()


def test_an_answer_that_comes_late_is_there_for_the_next_round(
    names: ContainerNames, engine: Engine
) -> None:
    engine.may_answer.clear()
    assert names.look_up(TRAINER).names is None
    engine.may_answer.set()
    assert names.look_up(TRAINER, PATIENT).names == RuntimeNames("trainer")


def test_an_engine_that_never_answers_is_given_up(engine: Engine) -> None:
    engine.may_answer.clear()
    assert ask_engine(engine.path, ID, timeout_seconds=0.01) is None


def test_another_runtimes_engine_is_not_asked(names: ContainerNames, engine: Engine) -> None:
    for runtime in ("podman", "containerd", "lxc"):
        assert names.look_up(Container(runtime, ID), PATIENT).names is None
    assert engine.asked == []
    assert names.look_up(Container("container", ID), PATIENT).names == RuntimeNames("trainer")


def test_a_name_that_is_in_the_path_already_is_final(names: ContainerNames) -> None:
    assert names.look_up(Container("lxc", "web"), PATIENT).final
    assert not names.look_up(Container("podman", ID), PATIENT).final


def test_where_there_is_no_socket_no_thread_is_started(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("a file, not a socket")
    threads = threading.active_count()
    sockets = {"docker": [str(tmp_path / "none"), str(tmp_path / "plain")]}
    for name in (TRAINER, TRAINER):
        assert ContainerNames(tmp_path, sockets).look_up(name, PATIENT).names is None
    assert threading.active_count() == threads


def test_only_a_socket_that_this_user_may_open_is_asked(engine: Engine, tmp_path: Path) -> None:
    assert may_ask(engine.path)
    assert not may_ask(str(tmp_path / "none"))
    if os.geteuid() != 0:
        Path(engine.path).chmod(0)
        assert not may_ask(engine.path)


def test_the_usual_sockets_lie_under_the_root() -> None:
    assert usual_sockets(Path("/"))["docker"][0] == "/run/docker.sock"
    assert usual_sockets(Path("/host"))["podman"][0] == "/host/run/podman/podman.sock"


@rows(
    ("content", "names"),
    [
        (b'{"Name": "/trainer"}', RuntimeNames("trainer")),
        (b'{"Name": "trainer", "Config": {"Labels": null}}', RuntimeNames("trainer")),
        (
            b'{"Name": "/k8s_main_t-0", "Config": {"Labels": {"io.kubernetes.pod.name": "t-0",'
            b'"io.kubernetes.pod.namespace": "ml", "io.kubernetes.container.name": "main"}}}',
            RuntimeNames("k8s_main_t-0", "ml", "t-0", "main"),
        ),
        (b'{"Name": 7, "Config": []}', RuntimeNames()),
        (b'{"Name": "/a\\u001b[2J"}', RuntimeNames(r"a\x1b[2J")),
        (b"[]", None),
        (b"not json", None),
        (b"\xff", None),
    ],
)
def test_an_engines_answer_is_read(content: bytes, names: RuntimeNames | None) -> None:
    assert parse_engine(content) == names


@given(st.binary() | st.recursive(st.none() | st.text(), lambda v: st.dictionaries(
    st.sampled_from(["Name", "Config", "Labels", "io.kubernetes.pod.name"]), v)).map(
        lambda value: json.dumps(value).encode()))  # fmt: skip
def test_no_answer_raises(content: bytes) -> None:
    parse_engine(content)


def test_kubernetes_names_are_found_in_the_names_of_its_logs(tmp_path: Path) -> None:
    (tmp_path / "var/log/containers").mkdir(parents=True)
    log = tmp_path / f"var/log/containers/trainer-0_ml_main-{ID}.log"
    log.symlink_to("/var/log/pods/ml_trainer-0_uid/main/0.log")
    found = RuntimeNames(None, "ml", "trainer-0", "main")
    assert names_from_logs(log.parent, ID) == found
    assert names_from_logs(log.parent, OTHER) is None
    assert names_from_logs(tmp_path / "none", ID) is None
    names = ContainerNames(tmp_path, {})
    assert names.look_up(Container("containerd", ID), PATIENT).names == found


@pytest.mark.parametrize("stem", ["", "a", "a_b", "a_b_c_d", "__"])
def test_another_files_name_is_not_a_pods(stem: str) -> None:
    assert parse_log_name(stem) is None


def process_in(root: Path, pid: int, cgroup: str) -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True)
    middle = "S 1 1 1 0 -1 4194304 1 0 0 0 150 50 0 0 20 0 1 0"
    (folder / "stat").write_text(f"{pid} (python) {middle} 500 1000000 25\n")
    (folder / "cmdline").write_bytes(b"python\0")
    (folder / "cgroup").write_text(cgroup)
    (root / "proc/2").mkdir(exist_ok=True)
    (root / "proc/2/comm").write_text("kthreadd\n")


@pytest.mark.slow
def test_a_process_shows_the_name_as_soon_as_it_is_known(
    names: ContainerNames, engine: Engine, tmp_path: Path
) -> None:
    process_in(tmp_path, 7, f"0::/docker/{ID}\n")
    engine.may_answer.clear()
    table = ProcessTable(tmp_path, names)
    assert table.attribute([Process(7)])[0].container == "docker:3f2a9c1b04de"
    engine.may_answer.set()
    names.look_up(TRAINER, PATIENT)
    assert table.attribute([Process(7)])[0].container == "docker:trainer"


class PatienceNoted(ContainerNames):
    """Remembers how long each caller would wait."""

    def look_up(self, container: Container, timeout_seconds: float = 0.0) -> ContainerInfo:
        self.timeouts.append(timeout_seconds)
        return super().look_up(container, timeout_seconds)

    def __init__(self, root: Path, engine: Engine) -> None:
        super().__init__(root, {"docker": [engine.path]})
        self.timeouts: list[float] = []


@pytest.mark.slow
def test_many_containers_together_cost_one_timeout(engine: Engine, tmp_path: Path) -> None:
    engine.may_answer.clear()
    names = PatienceNoted(tmp_path, engine)
    pids = range(10, 30)
    for pid in pids:
        process_in(tmp_path, pid, f"0::/docker/{pid:064x}\n")
    ProcessTable(tmp_path, names).attribute([Process(pid) for pid in pids])
    assert names.timeouts[0] > 0
    assert all(timeout <= 0 for timeout in names.timeouts[1:]), "the first has used it up"
    assert len(names.timeouts) == len(pids)


def test_without_a_thread_it_is_asked_once_there_may_be_one(names: ContainerNames) -> None:
    with pytest.MonkeyPatch.context() as patched:
        fails(patched, threading.Thread, "start", RuntimeError("can't start new thread"))
        found = names.look_up(TRAINER, PATIENT)
        assert (found.names, found.final) == (None, False)
    assert names.look_up(TRAINER, PATIENT).names == RuntimeNames("trainer")
