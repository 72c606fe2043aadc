"""A call of gRPC by hand: what is sent, and the message in what comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.host.rules.unary_call import call_of, message_in

SETTINGS = bytes.fromhex("000000040000000000")
HEADERS = bytes.fromhex("000001010400000001") + b"\x88"
TRAILERS = bytes.fromhex("000001010500000001") + b"\x88"


def _data(content: bytes, flags: int = 0) -> bytes:
    return len(content).to_bytes(3) + bytes([0, flags, 0, 0, 0, 1]) + content


def test_a_call_is_what_the_protocol_asks_for() -> None:
    sent = call_of("/v1.PodResourcesLister/List")
    assert sent.startswith(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x06\x04\x00")
    assert b"\x04\x1b/v1.PodResourcesLister/List\x01\x09localhost" in sent
    assert sent.endswith(b"\x00\x00\x05\x00\x01\x00\x00\x00\x01" + bytes(5))


def test_a_message_is_read_when_it_came_whole_and_not_before() -> None:
    whole = b"\0\0\0\0\x05hello"
    came = SETTINGS + HEADERS + _data(whole[:3]) + _data(whole[3:7]) + _data(whole[7:])
    for end in range(len(came)):
        assert message_in(came[:end]) is None
    assert message_in(came) == b"hello"
    assert message_in(came + TRAILERS) == b"hello"
    assert message_in(HEADERS + _data(bytes(5))) == b""


@pytest.mark.parametrize(
    ("came", "words"),
    [
        (SETTINGS + TRAILERS, "refused"),
        (HEADERS + bytes.fromhex("000004030000000001") + bytes(4), "refused"),
        (HEADERS + _data(b"\0\0\0\0\x05hel") + TRAILERS, "refused"),
        (HEADERS + _data(b"\1\0\0\0\x05hello"), "compressed"),
        (HEADERS + _data(b"\0\0\0\0\0\0", flags=8), "no gRPC"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no gRPC"),
    ],
)
def test_what_brings_no_message_is_refused(came: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        message_in(came)


@given(st.binary(max_size=200))
def test_no_bytes_are_more_than_a_refusal(came: bytes) -> None:
    try:
        found = message_in(came)
    except ValueError:
        return
    assert found is None or found in came or len(found) < len(came)
