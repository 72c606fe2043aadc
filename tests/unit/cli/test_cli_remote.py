"""Which token is meant for which server, and what is said where there is none."""

import os
import ssl
from collections.abc import Iterator
from http.client import RemoteDisconnected
from pathlib import Path
from typing import Any

import pytest

from andon.cli.browser_link import NO_SERVER, sign_in_link, sign_in_refused
from andon.errors import Denied, Unavailable
from andon.explain.conditions.rulebook import Rulebook
from andon.failures.rules.backoff import BackOff
from andon.host.state import server_file
from andon.model import wire
from andon.node.calls import Target
from andon.node.connection import NOT_PINNED
from andon.node.remote.live import RemoteLive
from andon.node.server import (
    CLEAR_TEXT,
    Server,
    connect,
    own_server,
    reach_hint,
    token_for,
)
from tests.support.homes import made_node_state
from tests.support.proving import TOKEN, Proving, proving
from tests.support.snapshots import farm

BEARER = f"Bearer {TOKEN}"
HERE, THERE = "http://127.0.0.1:1", "http://192.0.2.7:26366"


@pytest.fixture
def state(state_folder: Path) -> Path:
    folder = state_folder / "andon"
    state_folder.mkdir()
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def token(state: Path) -> Path:
    path = state / "token"
    path.touch(0o600)
    path.write_text(f"{TOKEN}\n")
    return path


@pytest.fixture
def server() -> Iterator[Proving]:
    with proving() as made:
        yield made


def quiet(words: str) -> None:
    raise AssertionError(words)


def test_the_own_token_is_for_this_machine_alone(token: Path) -> None:
    for url in (HERE, "http://localhost:1", "http://[::1]:1", "https://127.0.0.9"):
        found, _ = token_for(url, None)
        assert found is not None
        assert found.own
    assert token_for(THERE, None) == (None, None)
    assert token_for("http://localhost.example:1", None) == (None, None)


def test_a_named_token_is_for_the_server_that_was_named(
    token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, _ = token_for(THERE, str(token))
    assert named is not None
    assert not named.own
    monkeypatch.setenv("ANDON_TOKEN", " x ")
    given, _ = token_for(HERE, None)
    assert given is not None
    assert (given.text, given.own) == ("x", False)


@pytest.mark.parametrize(
    ("url", "warned"),
    [(THERE, True), ("http://node17", True), ("https://node17", False), (HERE, False),
     ("localhost:26366", False), ("http://[::1]:1", False)],
)  # fmt: skip
def test_a_token_in_clear_text_is_warned_about(token: Path, url: str, warned: bool) -> None:
    told: list[str] = []
    connect(url, str(token), told.append)
    assert told == [CLEAR_TEXT] * warned
    connect(url, None, quiet)


def test_a_token_that_cannot_be_used_matters_only_where_it_is_wanted(
    token: Path, server: Proving
) -> None:
    token.chmod(0o644)
    asked = connect(server.url, None, quiet)
    assert asked.get("/api/x") == {}
    server.status = 401
    server.body = b'{"error": {"reason": "changes need the token", "hint": "h"}}'
    with pytest.raises(Denied, match="other users can read the token"):
        asked.post("/api/x")
    assert {shown for _, shown in server.asked} == {None}


def test_the_own_server_has_to_prove_itself(token: Path, server: Proving) -> None:
    server_file.announce(made_node_state(token.parents[1]), server.url, "127.0.0.1")
    own = own_server()
    assert own is not None
    assert own.get("/api/x") == {}
    assert server.asked == [("/api/x", BEARER)]
    server.token = "u" * 43
    with pytest.raises(Denied, match="was not sent"):
        own.get("/api/x")
    assert len(server.asked) == 1


def test_without_its_token_the_own_server_is_none(state: Path) -> None:
    server_file.announce(made_node_state(state.parent), HERE, "127.0.0.1")
    assert own_server() is None


def test_where_no_server_runs_that_is_said(token: Path) -> None:
    for _ in range(2):
        with pytest.raises(Unavailable) as refused:
            sign_in_link(None, None, quiet)
        assert refused.value.reason == NO_SERVER
        token.unlink(missing_ok=True)
    (made_node_state(token.parents[1]) / server_file.NAME).write_text(
        f'{{"url": "{HERE}", "pid": {os.getpid()}, "started_ticks": 1}}'
    )
    with pytest.raises(Unavailable, match=NO_SERVER) as refused:
        sign_in_link(None, None, quiet)
    assert f"pid {os.getpid()}" in refused.value.hint


def test_a_server_that_signs_nobody_in_is_no_dead_end(state: Path, server: Proving) -> None:
    """An older one, or one whose setting forbids it."""
    with pytest.raises(Denied, match="you cannot sign in") as refused:
        sign_in_link(server.url, None, quiet)
    assert refused.value.hint == sign_in_refused(server.url, {os.getuid()}).hint
    assert sign_in_refused(server.url, {0}).hint == "ask root (uid 0), who runs this server"
    unknown = sign_in_refused(server.url, None)
    assert "needs its token" in unknown.reason
    assert unknown.hint.startswith("on that machine run: andon open --print; or pass its")


def test_a_token_that_is_refused_costs_nobody_what_is_free(token: Path, server: Proving) -> None:
    """Anyone who ever started a server has a token; another's is read without it."""
    server.token = "u" * 43
    assert connect(server.url, None, quiet).get("/api/x") == {}
    assert server.asked == [("/api/x", None)]


def test_a_link_is_asked_only_of_who_proved_itself(token: Path, server: Proving) -> None:
    server.token = "u" * 43
    server.body = b'{"code": "evil"}'
    with pytest.raises(Denied, match="sign in"):
        sign_in_link(server.url, None, quiet)
    assert server.asked == [("/api/session", None)]


def test_a_server_that_is_away_is_reported_once_and_again_when_it_is_back() -> None:
    said: list[str] = []
    reasons = ["connection reset", "connection refused", "connection refused"]

    class Away(Server):
        def get(self, path: str, **asked: object) -> Any:
            if reasons:
                raise Unavailable(reasons.pop(0))
            return wire.snapshot_to_json(farm())

    live = RemoteLive(Away(Target("http://node7")), Rulebook, said.append)
    found = live.patiently(BackOff(0.01, 0.01))
    assert found.node == farm().node
    assert said == ["connection reset; retrying", "http://node7 is responding again after 0 s"]


def test_what_waiting_cannot_help_is_not_waited_for() -> None:
    class Refusing(Server):
        def get(self, path: str, **asked: object) -> Any:
            raise Denied("no token")

    with pytest.raises(Denied):
        RemoteLive(Refusing(Target("http://node7")), Rulebook).patiently()


@pytest.mark.parametrize(
    ("code", "hint"), [(18, "SSL_CERT_FILE"), (62, "a name that is in the certificate")]
)
def test_a_refused_certificate_has_a_hint_of_its_own(code: int, hint: str) -> None:
    error = ssl.SSLCertVerificationError("certificate verify failed")
    error.verify_code = code
    assert hint in reach_hint(error)
    assert reach_hint(ConnectionRefusedError()) == "check that andon serve is running there"
    assert "ANDON_HUB_PIN" in reach_hint(OSError(NOT_PINNED))


def test_a_server_with_or_without_tls_is_reached_by_its_own_scheme() -> None:
    plain = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")
    plain.reason = "WRONG_VERSION_NUMBER"
    assert reach_hint(plain) == "use http:// instead of https://"
    assert reach_hint(RemoteDisconnected("")).startswith("use https:// if it has a certificate")
