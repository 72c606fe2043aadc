"""Requests are read strictly: what could be read in two ways is not read at all."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.errors import Conflict
from andon.exporter.server import (
    MOST_BYTES,
    HttpAnswer,
    HttpRequest,
    MalformedRequest,
    parse,
    receive,
)
from tests.support.rows import rows

PLAIN = b"GET /metrics HTTP/1.1\r\nHost: localhost:26367\r\nAccept: */*"


def test_a_request_is_its_method_its_path_and_its_host() -> None:
    assert parse(PLAIN) == HttpRequest("GET", "/metrics", "localhost")
    assert parse(b"HEAD /metrics?x=1 HTTP/1.0") == HttpRequest("HEAD", "/metrics", "")
    assert parse(b"GET / HTTP/1.1\r\nhost: [::1]:80").host == "::1"


@rows("head", [
    b"", b"GET", b"GET /metrics", b"GET  /metrics HTTP/1.1", b"GET metrics HTTP/1.1",
    b"GET /metrics HTTP/2", b"GET http://127.0.0.1/metrics HTTP/1.1", b"\x16\x03\x01\x02",
    PLAIN + b"\r\nHost: evil.example", PLAIN + b"\r\n folded: 1", PLAIN + b"\r\nHost : evil",
    PLAIN + b"\r\nnothing", PLAIN + b"\r\n: empty",
])  # fmt: skip
def test_what_is_no_request_is_not_answered(head: bytes) -> None:
    with pytest.raises(MalformedRequest):
        parse(head)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_request_or_none(head: bytes) -> None:
    try:
        assert parse(head).path.startswith("/")
    except MalformedRequest:
        assert head != PLAIN


def received(*parts: bytes) -> bytes:
    """The head as it is read from a client that sends these parts and then hangs up."""
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("rb") as file:
        for part in parts:
            theirs.send(part)
        theirs.shutdown(socket.SHUT_WR)
        return receive(file.readline(), file)


def test_a_request_may_come_in_pieces() -> None:
    whole = PLAIN + b"\r\n\r\n"
    assert received(*(whole[n : n + 1] for n in range(len(whole)))) == PLAIN


def test_a_head_ends_where_it_says_and_not_later() -> None:
    assert received(PLAIN + b"\r\n\r\nGET /next HTTP/1.1\r\n\r\n") == PLAIN


@pytest.mark.parametrize("sent", [
    b"x" * (MOST_BYTES + 1), b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * MOST_BYTES,
])  # fmt: skip
def test_a_request_without_end_is_given_up(sent: bytes) -> None:
    with pytest.raises(MalformedRequest):
        received(sent)


@pytest.mark.parametrize("sent", [b"", b"GET /met", PLAIN, PLAIN + b"\r\n"])
def test_a_request_that_breaks_off_is_given_up(sent: bytes) -> None:
    with pytest.raises(MalformedRequest):
        received(sent)


def test_an_error_becomes_its_status_and_its_hint() -> None:
    answer = HttpAnswer.of(Conflict("taken", hint="another"))
    assert (answer.status, answer.body) == (409, b"taken\nhint: another\n")
