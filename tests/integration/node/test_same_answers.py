"""What cannot be had or does not exist has the same exit code and sentence on this machine, behind
a server, on a hub and each of its nodes, and over SSH."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.serving import andon, serving
from tests.support.postgres import url_of
from tests.support.role_servers import NODE, RoleServer, reporting_node
from tests.support.ssh_hosts import SSHD, SshHosts
from tests.support.ssh_hosts import andon as andon_with_hosts

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not Path(SSHD).exists(), reason="dev/parts installs openssh-server"),
]
WAYS = ("here", "--url", "--node", "hub", "--ssh")
FLEET = Path(__file__).parents[3] / "docs/fleet.md"


class Machines:
    """The same question, asked of one machine after the other."""

    def __init__(self, folder: Path, stack: ExitStack, simulate: int) -> None:
        self._folder, self._simulate = folder, simulate
        self._server = stack.enter_context(serving(folder / "one", simulate=simulate or None))
        self._hosts = SshHosts(folder / "ssh", 28500)
        stack.callback(self._hosts.close)
        self._hosts.add(NODE, environment={"ANDON_SIMULATE": str(simulate)})

    def begin_hub(self, stack: ExitStack) -> None:
        store = ("--store", url_of(self._folder))
        made = serving(self._folder / "hub", *store, simulate=2, ANDON_NODE="hub")
        self._hub = stack.enter_context(made)
        owner = RoleServer(self._hub, {"token": self._hub.token}, {})
        token = owner.ask("token", "POST", "/api/nodes", {"name": NODE}).json()["token"]
        stack.enter_context(reporting_node(self._hub, token))

    def ask(self, way: str, words: Sequence[str]) -> tuple[int, str]:
        """Returns the exit code, and all that was printed."""
        if way == "--ssh":
            over = andon_with_hosts(self._hosts, *words, "--ssh", NODE, "--timeout", "40")
            return over.returncode, over.stdout + over.stderr
        more: Sequence[str] = ()
        given: Mapping[str, str] = {"ANDON_SIMULATE": str(self._simulate)}
        if way != "here":
            server = self._server if way == "--url" else self._hub
            more = ("--url", server.url, *(("--node", NODE) if way == "--node" else ()))
            given = {"ANDON_TOKEN": server.token}
        done = andon(self._folder / "alone", *words, *more, **given)
        return done.code, done.out + done.err


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    with ExitStack() as stack:
        made = Machines(tmp_path_factory.mktemp("machines"), stack, 2)
        made.begin_hub(stack)
        yield made


def promised() -> list[tuple[str, int, str]]:
    """The rows of the table in the docs."""
    found = re.findall(r"(?m)^\| `([^`]+)`[^|]*\| (\d+) \| ([^|]*?) \|$", FLEET.read_text())
    return [(words, int(code), "" if says == "its row" else says) for words, code, says in found]


def test_the_table_of_the_docs_is_found() -> None:
    assert len(promised()) >= 12
    assert {code for _, code, _ in promised()} == {0, 1, 2, 3, 5}


@pytest.mark.parametrize(("words", "code", "sentence"), promised())
def test_it_is_the_same_wherever_it_is_asked(
    machines: Machines, words: str, code: int, sentence: str
) -> None:
    found = {way: machines.ask(way, words.split()) for way in WAYS}
    assert {way: one for way, (one, _) in found.items()} == dict.fromkeys(WAYS, code), found
    assert all(sentence in text for _, text in found.values()), found


@pytest.mark.parametrize(("words", "sentence"), [
    ("logs 999", "there is no job 999"),
    ("runs show zzzz", "there is no run 'zzzz'"),
])  # fmt: skip
def test_what_is_only_read_on_the_machine_or_its_server_is_gone_there(
    machines: Machines, words: str, sentence: str
) -> None:
    found = {way: machines.ask(way, words.split()) for way in WAYS}
    codes = {way: one for way, (one, _) in found.items()}
    assert codes == {**dict.fromkeys(WAYS, 5), "--ssh": 2}, found
    assert all(sentence in text for way, (_, text) in found.items() if way != "--ssh"), found
    assert f"ssh -t {NODE} andon {words}" in found["--ssh"][1]


@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="this machine has a GPU")
@pytest.mark.parametrize("words", ["free", "status"])
def test_a_machine_without_a_gpu_says_so(tmp_path: Path, words: str) -> None:
    ways = [way for way in WAYS if way not in ("--node", "hub")]
    with ExitStack() as stack:
        machines = Machines(tmp_path, stack, 0)
        found = {way: machines.ask(way, [words]) for way in ways}
    assert {way: one for way, (one, _) in found.items()} == dict.fromkeys(ways, 3), found
    assert all("no GPU" in text.replace("No GPU", "no GPU") for _, text in found.values()), found
