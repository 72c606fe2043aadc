"""A server proves that it knows the token, and for its own address alone."""

import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.access.server_proof import (
    HINT_DIGITS,
    Peer,
    Statement,
    doubt,
    hint_of,
    parse_statement,
    place_of,
    proof_key,
    prove,
    token_hash,
)
from tests.support.rows import rows

TOKEN, NONCE = "t" * 43, bytes(range(32))
ME, ANOTHER = 1000, 65534
HERE = Peer("127.0.0.1", 26366)


def said(place: str = "127.0.0.1:26366", token: str = TOKEN, nonce: bytes = NONCE) -> Statement:
    return prove(proof_key(token_hash(token)), nonce, place)


def test_who_knows_the_token_is_believed_at_its_own_address() -> None:
    assert doubt(said(), TOKEN, NONCE, HERE, ME) is None


@pytest.mark.parametrize(
    "statement",
    [
        None,
        said(token="u" * 43),
        said(nonce=bytes(32)),
        replace(said(), proof="0" * 64),
        replace(said(), proof=""),
        replace(said("127.0.0.1:5000"), place="127.0.0.1:26366"),
    ],
)
def test_who_does_not_know_it_is_not(statement: Statement | None) -> None:
    assert doubt(statement, TOKEN, NONCE, HERE, ME) is not None
    assert doubt(statement, TOKEN, NONCE, replace(HERE, encrypted=True), ME) is not None


@rows(
    ("peer", "believed"),
    [
        (HERE, False),  # who listens there is not known
        (replace(HERE, listeners={ANOTHER}), False),
        (replace(HERE, listeners={ME, ANOTHER}), False),
        (replace(HERE, listeners={ME}), True),  # a tunnel of one's own
        (replace(HERE, listeners={0}), True),  # a proxy of root's
        (replace(HERE, encrypted=True), True),  # TLS has verified who it is
        (Peer("192.0.2.7", 26366), True),  # another machine's address may be translated
        (Peer("192.0.2.7", 26366, listeners={ANOTHER}), False),  # it is this machine's own
    ],
)
def test_a_proof_for_another_address_counts_only_through_whom_we_trust(
    peer: Peer, believed: bool
) -> None:
    relayed = doubt(said("127.0.0.1:5000"), TOKEN, NONCE, peer, ME)
    assert (relayed is None) is believed


def test_an_address_is_written_the_same_at_both_ends() -> None:
    assert place_of("127.0.0.1", 1) == place_of("::ffff:127.0.0.1", 1) == "127.0.0.1:1"
    assert place_of("::1", 1) == place_of("0:0:0:0:0:0:0:1", 1) == "[::1]:1"
    assert place_of("fe80::1%eth0", 1) == "[fe80::1]:1"


def test_no_answer_is_the_digest_by_which_the_server_knows_the_token() -> None:
    """The server compares SHA-256 digests of what it is shown: none of them may ever be told."""
    key = proof_key(token_hash(TOKEN))
    told = {said().proof, key.hex()}
    plain = hashlib.sha256(TOKEN.encode()).hexdigest()
    direct = {hmac.new(TOKEN.encode(), text, "sha256").hexdigest() for text in (NONCE, b"")}
    assert not told & ({plain} | direct)
    assert said().proof != key.hex()


def test_only_nonces_of_one_length_are_answered() -> None:
    for wrong in (b"", b"x", NONCE + b"x"):
        with pytest.raises(ValueError, match="32 bytes"):
            prove(proof_key(token_hash(TOKEN)), wrong, "127.0.0.1:1")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(_JSON | st.fixed_dictionaries({"address": _JSON, "proof": _JSON}))
@pytest.mark.slow
def test_nothing_that_a_stranger_says_breaks_it(answer: Any) -> None:
    statement = parse_statement(answer)
    assert doubt(statement, TOKEN, NONCE, HERE, ME) is not None


@given(st.text(min_size=1, max_size=100), st.text(min_size=64, max_size=64))
def test_no_statement_of_the_right_form_breaks_it(place: str, proof: str) -> None:
    statement = parse_statement({"address": place, "proof": proof})
    assert doubt(statement, TOKEN, NONCE, HERE, ME) is not None


def test_a_hint_says_which_token_is_meant_and_nothing_about_it() -> None:
    hashed = token_hash(TOKEN)
    hint = hint_of(hashed)
    assert (len(hint), hint == hint_of(token_hash(TOKEN[1:]))) == (HINT_DIGITS, False)
    assert hint not in hashed.hex() + proof_key(hashed).hex()
