"""Where a command looks for this machine's server, and that tests look elsewhere."""

import os
import socket

import pytest

from andon.cli.main import run
from andon.errors import Invalid
from andon.host.state.user_folder import SERVER_FILE, node_path
from andon.node.usual_server import may_be_running, usual_port, usual_url
from andon.settings.table import USUAL_PORT


def test_it_is_the_usual_port_unless_a_variable_names_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for given, port in {
        "": USUAL_PORT,
        " ": USUAL_PORT,
        "1": 1,
        " 8000 ": 8000,
        "65535": 65535,
    }.items():
        monkeypatch.setenv("ANDON_PORT", given)
        assert (usual_port(), usual_url()) == (port, f"http://127.0.0.1:{port}")
    monkeypatch.delenv("ANDON_PORT")
    assert usual_port() == USUAL_PORT


@pytest.mark.parametrize("given", ["0", "65536", "-1", "x", "8000/", "²", "9" * 5000])
def test_what_is_no_port_is_refused(
    given: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANDON_PORT", given)
    with pytest.raises(Invalid, match="ANDON_PORT is"):
        usual_port()
    assert run(["open", "--print"]) == 2
    assert "not a port" in capsys.readouterr().err


def test_a_server_is_asked_only_where_one_may_be_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        monkeypatch.setenv("ANDON_PORT", str(listening.getsockname()[1]))
        assert not may_be_running(), "no one listens yet, and no server wrote its address"
        listening.listen()
        assert may_be_running()
    assert not may_be_running()
    node_path().mkdir(parents=True)
    (node_path() / SERVER_FILE).touch()
    assert may_be_running()


def test_no_test_asks_a_server_of_this_machine() -> None:
    assert usual_port() != USUAL_PORT
    assert not os.path.lexists(os.environ["XDG_STATE_HOME"])
