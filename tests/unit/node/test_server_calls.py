"""The token goes to a server that proved itself, on the connection on which it did."""

import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from andon.access.server_proof import PATH
from andon.errors import Denied, Unavailable
from andon.node.calls import (
    Answer,
    CallLimits,
    SentRequest,
    Target,
    Token,
    TooLarge,
    Trust,
    call,
    connection_pool,
)
from andon.node.connection import FAILURES, plain_message
from tests.support.hostile_server import SLOW, hostile_server
from tests.support.proving import TOKEN, Proving, proving
from tests.support.sources import sources
from tests.support.surroundings import STRANGER, listened_by

BEARER = f"Bearer {TOKEN}"
OWN, NAMED = Token(TOKEN), Token(TOKEN, own=False)


@pytest.fixture
def server() -> Iterator[Proving]:
    with proving() as made:
        yield made


def ask(server: Proving, token: Token | None = OWN, trust: Trust = Trust.NAMED) -> Answer:
    return call(
        Target(server.url, trust, token), SentRequest("GET", "/api/x"), CallLimits(5.0, 1 << 20)
    )


def test_who_proved_itself_gets_the_token(server: Proving) -> None:
    for token in (OWN, NAMED):
        assert ask(server, token)[:3] == (200, b"{}", None)
    assert server.asked == [("/api/x", BEARER)] * 2
    assert server.proofs == 2, "each connection is a question of its own"


def test_a_connection_that_is_kept_is_proved_once_and_made_again_when_it_was_closed(
    server: Proving,
) -> None:
    target, limits = Target(server.url, Trust.NAMED, NAMED), CallLimits(5.0, 1 << 20)
    with closing(connection_pool(target)) as kept:
        for path in ("/api/x", "/api/y"):
            assert call(target, SentRequest("GET", path), limits, kept).status == 200
        assert (server.proofs, server.asked) == (1, [("/api/x", BEARER), ("/api/y", BEARER)])
        server.closes = True
        with suppress(*FAILURES):
            call(target, SentRequest("GET", "/api/z"), limits, kept)
        server.closes = False
        assert call(target, SentRequest("GET", "/api/z"), limits, kept).status == 200
    assert server.proofs > 1, "a new connection is a new question"


def test_what_changes_something_is_not_sent_on_a_connection_that_may_be_closed(
    server: Proving,
) -> None:
    target, limits = Target(server.url, Trust.NAMED, NAMED), CallLimits(5.0, 1 << 20)
    with closing(connection_pool(target)) as kept:
        for _ in range(2):
            call(target, SentRequest("POST", "/api/x", b"{}"), limits, kept)
    assert server.proofs == 2, "it is sent once"


def test_below_a_path_of_a_proxys_the_proof_is_asked_for_there(server: Proving) -> None:
    call(
        Target(f"{server.url}/gpu/", token=OWN),
        SentRequest("GET", "/api/x"),
        CallLimits(5.0, 1 << 20),
    )
    assert [path.partition("?")[0] for path, _ in server.asked] == [f"/gpu{PATH}", "/gpu/api/x"]


@pytest.mark.parametrize("wrong", [None, "u" * 43])
def test_who_cannot_is_read_without_it_where_the_person_named_it(
    server: Proving, wrong: str | None
) -> None:
    server.token = wrong
    answer = ask(server)
    assert answer.status == 200
    assert answer.doubt is not None
    assert [path for path, _ in server.asked][-1] == "/api/x"
    assert {shown for _, shown in server.asked} == {None}


@pytest.mark.parametrize(
    ("token", "trust"),
    [(NAMED, Trust.NAMED), (NAMED, Trust.PROVEN), (OWN, Trust.PROVEN), (None, Trust.PROVEN)],
)
def test_who_cannot_is_not_asked_where_it_must(
    server: Proving, token: Token | None, trust: Trust
) -> None:
    server.token = "u" * 43
    with pytest.raises(Denied, match="was not sent"):
        ask(server, token, trust)
    assert server.asked == []


@pytest.mark.parametrize("own", [True, False])
def test_a_man_between_gets_no_token(
    server: Proving, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the real server prove, at the real server's address."""
    server.place = "127.0.0.1:1"
    listened_by(monkeypatch, STRANGER)
    with pytest.raises(Denied) as refused:
        ask(server, Token(TOKEN, own), Trust.PROVEN)
    assert server.asked == []
    if own:
        assert server.proofs == 0, "another user's listener is not even asked"
    else:
        assert "relays requests" in refused.value.reason
    listened_by(monkeypatch)
    with pytest.raises(Denied):
        ask(server, Token(TOKEN, own), Trust.PROVEN)
    assert server.asked == []


def test_a_token_goes_over_no_other_connection_than_the_proved_one(server: Proving) -> None:
    server.closes = True  # whoever takes the port now has proved nothing
    with pytest.raises(FAILURES):
        ask(server)
    assert server.proofs == 1
    assert server.asked == []


def test_a_redirect_is_an_answer_and_is_not_followed(server: Proving) -> None:
    with proving() as elsewhere:
        server.status, server.more = 307, (("Location", f"{elsewhere.url}/api/x"),)
        assert ask(server).status == 307
        assert (elsewhere.asked, elsewhere.proofs) == ([], 0)


def test_no_proxy_sees_a_request(server: Proving, monkeypatch: pytest.MonkeyPatch) -> None:
    with proving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        ask(server)
        ask(server, None)
        assert (proxy.asked, proxy.proofs) == ([], 0)


def test_an_endless_or_odd_proof_is_none(server: Proving) -> None:
    for odd in (b"[" * 4000, b"{" + b" " * 100_000 + b"}", b"null", b"", b"\xff"):
        server.odd_proof = odd
        assert ask(server).doubt is not None
    assert {shown for _, shown in server.asked} == {None}


def test_a_service_is_this_users_or_the_systems(
    server: Proving, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(server, None, Trust.SERVICE).status == 200
    seen = listened_by(monkeypatch, STRANGER)
    with pytest.raises(Unavailable, match="neither"):
        ask(server, None, Trust.SERVICE)
    assert set(seen) == {("127.0.0.1", server.server_port)}, "of the very address that was asked"
    assert len(server.asked) == 1


def test_a_service_that_does_not_know_the_named_token_is_read_without_it(server: Proving) -> None:
    server.token = "u" * 43
    assert ask(server, NAMED, Trust.SERVICE).status == 200
    assert server.asked == [("/api/x", None)]
    server.token = TOKEN
    assert ask(server, NAMED, Trust.SERVICE).doubt is None
    assert server.asked[-1] == ("/api/x", BEARER)


@pytest.mark.slow
def test_no_other_module_sends_a_token() -> None:
    """Every module that speaks HTTP to anyone; the last three know no andon server. A hub gets the
    token of a node, a receiver of exports the secret that the settings name for it, Ray and
    Kubernetes the tokens that their own commands would send them, a server of models the key that
    is named for a benchmark."""
    speaks = re.compile(
        r"(?:import|from) (?:http\.client|urllib\.request|httpx|requests|aiohttp)\b"
        r"|from urllib import .*\brequest\b|socketio\.(?:Async)?(?:Simple)?Client\b"
    )
    bearer = re.compile(r"f[\"']Bearer ")
    assert {path for path, text in sources().items() if speaks.search(text)} == {
        "node/calls.py", "node/connection.py", "host/processes/containers.py",
        "notifiers/alertmanager.py", "clusters/ray/dashboard.py",
    }  # fmt: skip
    assert {path for path, text in sources().items() if bearer.search(text)} == {
        "node/calls.py", "fleet/link.py", "exporter/receiver.py", "clusters/ray/dashboard.py",
        "clusters/kubernetes/transport.py", "api/served_model.py",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("url", ["http", "https"])
def test_one_time_limit_holds_for_the_whole_exchange(url: str) -> None:
    """Whoever accepts and says nothing, or one sign now and then, is left when time is over."""
    with hostile_server() as server:
        server.manner = SLOW["slow headers"]
        target = Target(server.url.replace("http", url, 1), token=OWN)
        with pytest.raises(FAILURES):
            call(target, SentRequest("GET", "/api/x"), CallLimits(0.2, 1 << 20))


def test_an_answer_beyond_its_bound_is_refused(server: Proving) -> None:
    server.body = b"x" * 1001
    with pytest.raises(TooLarge):
        call(Target(server.url), SentRequest("GET", "/api/x"), CallLimits(5.0, 1000))
    pieces: list[bytes] = []
    asked = SentRequest("GET", "/api/x", sink=pieces.append)
    answer = call(Target(server.url), asked, CallLimits(5.0, 1001))
    assert (answer.status, answer.body) == (200, b"")
    assert b"".join(pieces) == server.body


def test_a_failure_is_said_without_numbers_and_files_of_python() -> None:
    name = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert plain_message(name) == "Name or service not known"
    assert plain_message(ConnectionRefusedError(111, "Connection refused")) == "Connection refused"
    plain = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)")
    plain.reason = "WRONG_VERSION_NUMBER"
    assert plain_message(plain) == "it does not speak HTTPS"
