"""A secret is shown only to a server that proves to be the right one: the attacks, played."""

import json
import os
import secrets
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from andon.access.local_rest import RestAnswer
from andon.cli.catalogue import COMMANDS
from andon.cli.main import cli
from andon.host.state import server_file as whereabouts
from andon.model.alert import Alert, AlertList, Level, Phase
from andon.model.codec import document
from andon.node.broken_devices import ALERTS_PATH, BrokenDevicesQuery
from tests.conftest import need
from tests.integration.conftest import Outcome
from tests.integration.impostor import NOBODY, Impostor, impostor, local_impostor
from tests.integration.parts import free_port, need_root
from tests.integration.serving import Served, serving
from tests.integration.serving import andon as andon_in
from tests.support.homes import made_node_state, node_state
from tests.support.local_rest import answering

ONE_READING = "Based on one reading"
EXAMPLES: dict[str, tuple[str, ...]] = {
    "cancel": ("1",),
    "watch": ("-n", "1"), "release": ("x",), "lease extend": ("x", "--for", "1h"),
    "alerts show": ("x",), "alerts ack": ("x",), "alerts silence": ("x", "1h"),
    "alerts unsilence": ("x",), "open": ("--print",), "history": ("0",), "estimate": ("qwen3-8b",),
    **{f"nodes {name}": ("x",) for name in ("add", "drain", "remove", "resume", "show")},
    "token add": ("x", "--role", "read"),
    "token remove": ("x",),
}  # fmt: skip


def commands_with_a_url() -> list[str]:
    """Every command and subcommand that asks the server it is given at once."""

    def walk(command: click.Command, name: str) -> Iterator[str]:
        if any("--url" in parameter.opts for parameter in command.params):
            yield name
        for sub, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, f"{name} {sub}")

    context = click.Context(cli)
    named = [(name, cli.get_command(context, name)) for name in COMMANDS]
    found = [one for name, command in named if command for one in walk(command, name)]
    later = ("check", "mcp", "reserve")
    return [one for one in found if one.split()[0] not in later]


@pytest.fixture(autouse=True)
def _as_root(book_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_root()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANDON_SIMULATE_SCENARIO", "idle")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The state of a user who has run a server: its token is there."""
    folder = tmp_path / "state" / "andon"
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    token = folder / "token"
    token.touch(0o600)
    token.write_text(secrets.token_urlsafe(32) + "\n")
    return folder.parent


@pytest.fixture
def liar(tmp_path: Path) -> Iterator[Impostor]:
    with impostor(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of this user's, with a state folder of its own."""
    with serving(tmp_path_factory.mktemp("other"), "--no-history", simulate=1) as served:
        yield served


def andon(state: Path, *arguments: str, **env: str) -> Outcome:
    return andon_in(state, *arguments, **env)


def token_of(state: Path) -> str:
    return (state / "andon" / "token").read_text().strip()


def server_file(state: Path) -> Path:
    return node_state(state) / whereabouts.NAME


# Another user listens on the server's port.


@pytest.mark.parametrize("command", [*commands_with_a_url(), "lease extend"])
def test_no_command_shows_the_own_token_to_another_users_listener(
    state: Path, liar: Impostor, command: str
) -> None:
    words = (*command.split(), *EXAMPLES.get(command, ()), "--url", liar.url)
    done = andon(state, *words)
    assert "Traceback" not in done.err
    assert token_of(state) not in liar.text()
    assert "authorization" not in liar.text().lower()
    if command == "top":
        assert (done.code, liar.text()) == (2, ""), "it needs a terminal, and asks no one without"
    elif command == "open":
        assert done.code == 4
        assert "evil" not in done.out + done.err
        assert "nobody" in done.err, "it says who listens there"
    else:
        assert "/api/" in liar.text(), "it was asked, without the token"


@pytest.mark.parametrize("command", ["status", "alerts", "open"])
def test_a_token_that_was_named_is_not_shown_to_who_does_not_know_it(
    state: Path, liar: Impostor, command: str
) -> None:
    named = str(state / "andon" / "token")
    for more in ({"ANDON_TOKEN": token_of(state)}, {}):
        given = () if more else ("--token-file", named)
        done = andon(state, command, "--url", liar.url, *given, **more)
        assert done.code == 4, done.err
        assert "was not sent" in done.err
        assert "/api/proof" in liar.text()
        assert token_of(state) not in liar.text()


@pytest.mark.parametrize("named", [True, False])
def test_a_listener_that_passes_everything_on_to_the_server_gets_no_token(
    other: Served, tmp_path: Path, named: bool
) -> None:
    given = ("--token-file", str(other.state / "andon" / "token")) if named else ()
    with impostor(tmp_path, f"relay={other.port}") as between:
        done = andon(other.state, "status", "--json", "--url", between.url, *given)
        assert other.token not in between.text()
        assert andon(other.state, "open", "--print", "--url", between.url, *given).code == 4
        assert other.token not in between.text()
    assert done.code == (4 if named else 0)
    if not named:
        assert not [p for d in done.json()["devices"] for p in d["processes"] if p["command"]]


@pytest.mark.parametrize("named", [True, False])
def test_a_tunnel_of_the_users_own_leads_to_the_server(
    other: Served, tmp_path: Path, named: bool
) -> None:
    """As `ssh -L 8000:127.0.0.1:26366` does: the listener is this user's own process."""
    given = ("--token-file", str(other.state / "andon" / "token")) if named else ()
    with impostor(tmp_path, f"relay={other.port}", uid=os.geteuid()) as tunnel:
        done = andon(other.state, "open", "--print", "--url", tunnel.url, *given)
        assert done.code == 0, done.err
        assert other.token in tunnel.text()


def test_nothing_is_sent_to_where_a_listener_redirects(state: Path, tmp_path: Path) -> None:
    with (
        impostor(tmp_path) as elsewhere,
        impostor(tmp_path, f"redirect={elsewhere.url}/api/x", uid=os.geteuid()) as near,
    ):
        for command in (("status",), ("open", "--print"), ("alerts", "ack", "x")):
            for given in ((), ("--token-file", str(state / "andon" / "token"))):
                assert andon(state, *command, "--url", near.url, *given).code in (3, 4)
        assert near.text()
        assert elsewhere.text() == ""
        assert token_of(state) not in near.text()


def killed(state: Path) -> tuple[int, int]:
    """A server that is gone without a word: the pid and the port that it had."""
    with serving(state, "--no-history", simulate=1) as served:
        served.process.kill()
        served.process.wait()
    assert server_file(state).exists()
    return served.process.pid, served.port


FINDERS = [("alerts",), ("free",), ("run", "--simulate", "2", "--no-wait", "--", "true"),
           ("wait", "--simulate", "2", "-t", "0"), ("env", "--simulate", "2"),
           ("lease", "--simulate", "2", "--", "true"), ("open", "--print")]  # fmt: skip


@pytest.mark.parametrize("forged", [False, True], ids=["as-it-was", "pid-taken"])
def test_what_a_killed_server_left_leads_to_no_impostor(tmp_path: Path, forged: bool) -> None:
    state = tmp_path / "state"
    _, port = killed(state)
    saying = server_file(state).read_text()
    if forged:  # the number was given to another process meanwhile
        saying = json.dumps({**json.loads(saying), "pid": os.getpid()})
    with impostor(tmp_path, port=port) as liar:
        for words in FINDERS:
            server_file(state).write_text(saying)
            done = andon(state, *words, ANDON_SIMULATE="2")
            assert liar.text() == "", words
            assert "No active alerts" not in done.out or ONE_READING in done.out, words
            assert done.code == (3 if words[0] == "open" else 0), (words, done.err)


def test_a_server_file_that_names_a_living_process_is_not_believed_without_proof(
    state: Path, liar: Impostor
) -> None:
    """Everything in the file is right, and the listener is another's: a process of ours died."""
    whereabouts.announce(made_node_state(state), liar.url, "127.0.0.1")
    saying = server_file(state).read_text()
    for words in FINDERS:
        server_file(state).write_text(saying)
        done = andon(state, *words, ANDON_SIMULATE="2")
        assert "No active alerts" not in done.out or ONE_READING in done.out
        assert liar.text() == ""


def test_open_says_that_no_server_runs_and_which_one_did(tmp_path: Path) -> None:
    done = andon(tmp_path, "open")
    assert done.code == 3
    assert "no andon server is running here" in done.err
    assert "token" not in done.err
    pid, port = killed(tmp_path)
    done = andon(tmp_path, "open")
    assert done.code == 3
    assert "no andon server is running here" in done.err
    assert f"pid {pid}" in done.err
    assert f"127.0.0.1:{port}" in done.err
    with serving(tmp_path, "--no-history", simulate=1) as served:
        assert andon(tmp_path, "open", "--print").out.startswith(f"{served.url}/#code=")


def test_the_server_file_says_which_process_and_which_boot(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-history", simulate=1) as served:
        said = json.loads(server_file(tmp_path).read_text())
        assert (said["pid"], said["url"]) == (served.process.pid, served.url)
        assert said["started_ticks"] > 0
        assert said["boot"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert server_file(tmp_path).stat().st_mode & 0o777 == 0o600
        later = {**said, "boot": "00000000-0000-0000-0000-000000000000"}
        server_file(tmp_path).write_text(json.dumps(later))
        assert whereabouts.find(node_state(tmp_path)) is None
        server_file(tmp_path).write_text(json.dumps({**said, "started_ticks": 1}))
        assert whereabouts.find(node_state(tmp_path)) is None


def test_a_server_in_a_pid_namespace_of_its_own_is_found_from_outside(tmp_path: Path) -> None:
    """As in a container that shares the state folder and the network: its pid says nothing here."""
    need("unshare")
    inside = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    with serving(tmp_path, "--no-history", simulate=1, wrapped=inside) as served:
        assert json.loads(server_file(tmp_path).read_text())["pid"] == 1
        done = andon(tmp_path, "open", "--print")
        assert done.out.startswith(f"{served.url}/#code="), done.err
        served.process.kill()  # unshare passes no SIGTERM on, but its child dies with it


# Another user listens on another address of the same port.


def test_a_strangers_socket_does_not_switch_the_systems_server_off(tmp_path: Path) -> None:
    """It has a name of the same port."""
    broken = Alert("xid@GPU-0#1", "xid", "GPU-0", Level.CRITICAL, Phase.FIRING, 1.0, message="Xid")
    said = json.dumps(document(AlertList("n", 1.0, False, None, (broken,), ()))).encode()
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
        with local_impostor(tmp_path, port, b"andon.rest/1 200/2/\n{}") as liar:
            assert BrokenDevicesQuery(port)() == {}
            with answering(port, {ALERTS_PATH: RestAnswer(200, said)}):
                assert BrokenDevicesQuery(port)().keys() == {"GPU-0"}
            assert liar.text() == "", "another user's listener is sent nothing"


# Row A11: a token of one's own does not keep anyone from reading.


def test_another_users_server_is_read_although_one_has_a_token(state: Path, other: Served) -> None:
    done = andon(state, "status", "--json", "--url", other.url)
    assert done.code == 0, done.err
    assert len(done.json()["devices"]) == 1
    assert "alerts" in andon(state, "alerts", "--json", "--url", other.url).json()
    refused = andon(state, "alerts", "ack", "x", "--url", other.url)
    assert refused.code in (4, 5)
    signed = andon(state, "open", "--url", other.url)  # not by the token: the kernel knows root
    assert "signed in as root with the server of root" in signed.err


def test_no_token_is_made_where_the_port_is_taken(tmp_path: Path, liar: Impostor) -> None:
    done = andon(tmp_path, "serve", "--simulate", "1", "--port", str(liar.port))
    assert done.code == 6
    assert not (tmp_path / "andon" / "token").exists()


# Two servers on one state folder.


def test_a_second_server_on_a_state_folder_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-history", simulate=1) as first:
        before = server_file(tmp_path).read_text()
        done = andon(tmp_path, "serve", "--simulate", "1", "--port", str(free_port()))
        assert done.code == 6
        assert f"pid {first.process.pid}" in done.err
        assert first.url in done.err
        assert "XDG_STATE_HOME" in done.err
        assert server_file(tmp_path).read_text() == before
        assert andon(tmp_path, "open", "--print").out.startswith(first.url)
        with serving(tmp_path / "second", "--no-history", simulate=1) as second:
            assert second.ask("/healthz").status == 200
        assert server_file(tmp_path).read_text() == before
    assert not server_file(tmp_path).exists()


def test_a_server_leaves_a_file_that_is_not_its_own(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-history", simulate=1) as served:
        said = json.loads(server_file(tmp_path).read_text())
        server_file(tmp_path).write_text(json.dumps({**said, "started_ticks": 1}))
        served.process.send_signal(signal.SIGTERM)
        served.process.wait(60)
    assert server_file(tmp_path).exists()


# A state folder of another user.


def test_a_server_does_not_use_another_users_state_folder(state: Path) -> None:
    folder = state / "andon"
    os.chown(folder / "token", NOBODY, NOBODY)
    words = ("serve", "--simulate", "1", "--port", "0")
    done = andon(state, *words)
    assert done.code == 4
    assert str(folder / "token") in done.err
    assert "nobody" in done.err
    os.chown(folder, NOBODY, NOBODY)
    done = andon(state, *words)
    assert done.code == 4
    for word in (str(folder), "nobody", "sudo -H", "XDG_STATE_HOME"):
        assert word in done.err


def test_a_server_makes_no_state_folder_below_another_users(tmp_path: Path) -> None:
    home = tmp_path / "alice"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    done = andon(home / ".local" / "state", "serve", "--simulate", "1", "--port", "0")
    assert done.code == 4
    assert "nobody" in done.err
    assert list(home.iterdir()) == []


def test_what_another_user_wrote_into_a_state_folder_leads_nowhere(
    state: Path, tmp_path: Path
) -> None:
    """`sudo -E andon alerts`: the folder, the token and the server are another user's."""
    folder = state / "andon"
    with impostor(tmp_path, uid=os.geteuid()) as liar:
        whereabouts.announce(made_node_state(state), liar.url, "127.0.0.1")
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        for words in FINDERS:
            andon(state, *words, ANDON_SIMULATE="2")
        assert liar.text() == ""
        done = andon(state, "open", "--url", liar.url)
        assert done.code == 4
        assert "nobody" in done.err
        assert "authorization" not in liar.text().lower()
        given = andon(state, "status", "--url", liar.url, "--token-file", str(folder / "token"))
        assert given.code == 4
        assert "nobody" in given.err


# A pipe in the place of a file.


@pytest.mark.parametrize("name", ["token", whereabouts.NAME, "server.lock"])
def test_a_pipe_in_the_state_folder_is_not_waited_for(
    state: Path, liar: Impostor, name: str
) -> None:
    path = (state / "andon" if name == "token" else made_node_state(state)) / name
    path.unlink(missing_ok=True)
    os.mkfifo(path, 0o600)
    for words in FINDERS[:2]:
        assert andon(state, *words, ANDON_SIMULATE="2").code == 0
    if name == whereabouts.NAME:
        return
    done = andon(state, "serve", "--simulate", "1", "--port", "0")
    assert done.code == 4
    assert str(path) in done.err
    assert andon(state, "status", "--url", liar.url).code == 3
