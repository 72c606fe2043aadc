"""Lets a server prove that it knows a token before the token is sent to it.

The client sends a random nonce. The server answers with its own address and an HMAC, keyed with the
token, over the nonce and that address. A listener that does not know the token cannot answer, and
one that relays the request to the real server returns the real server's address, not its own.
"""

import hashlib
import hmac
import ipaddress
from collections.abc import Set

from msgspec import Struct

PATH = "/api/proof"
NONCE_BYTES = 32
HINT_DIGITS = 16
GUESSED_CHARACTERS = 32
"""A token that is shorter may be a word: nothing is said of it that could be tried against."""
ROOT = 0

# Each use of the token has its own label, so that no answer can serve as another secret.
_KEY = b"andon.proof/1 key"
_HINT = b"andon.proof/1 hint"
_STATEMENT = b"andon.proof/1 server statement"
_LONGEST_PLACE = 100


class Statement(Struct, frozen=True):
    """A server's answer: the address at which it was asked, and the proof."""

    place: str
    proof: str


class Peer(Struct, frozen=True):
    """What this machine knows about the other end of a connection."""

    address: str
    port: int
    encrypted: bool = False  # TLS has verified its name already
    listeners: Set[int] = frozenset()  # the uids that listen there; empty if unknown

    @property
    def place(self) -> str:
        return place_of(self.address, self.port)

    @property
    def is_local(self) -> bool:
        return ipaddress.ip_address(_plain(self.address)).is_loopback


def token_hash(token: str) -> bytes:
    """Returns the hash that a server stores of a token, which cannot be computed from it."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def hint_of(hashed: bytes) -> str:
    """Returns a hint at which of a server's tokens is meant: part of a hash of its hash."""
    return hashlib.sha256(_HINT + hashed).hexdigest()[:HINT_DIGITS]


def proof_key(hashed: bytes) -> bytes:
    """Returns the key of all proofs about the token with this hash."""
    return hmac.digest(hashed, _KEY, "sha256")


def prove(key: bytes, nonce: bytes, place: str) -> Statement:
    """Returns the server's statement: its address and the proof over the nonce and that."""
    if len(nonce) != NONCE_BYTES or len(place) > _LONGEST_PLACE:
        raise ValueError("a nonce has 32 bytes, and an address is short")
    message = _STATEMENT + b"\0" + nonce + b"\0" + place.encode("ascii", "replace")
    return Statement(place, hmac.digest(key, message, "sha256").hex())


def place_of(address: str, port: int) -> str:
    """Returns an address and port in the same form for both ends of a connection."""
    plain = _plain(address)
    return f"[{plain}]:{port}" if ":" in plain else f"{plain}:{port}"


def parse_statement(answer: object) -> Statement | None:
    """Returns the statement in an untrusted answer; None if it has none."""
    if not isinstance(answer, dict):
        return None
    place, proof = answer.get("address"), answer.get("proof")
    if not isinstance(place, str) or not isinstance(proof, str):
        return None
    if not 0 < len(place) <= _LONGEST_PLACE or len(proof) != 64:
        return None
    return Statement(place, proof) if (place + proof).isascii() else None


def is_foreign(listeners: Set[int], uid: int) -> bool:
    """Whether a user other than this one and root is known to listen there."""
    return bool(listeners - {uid, ROOT})


def doubt(
    statement: Statement | None, token: str, nonce: bytes, peer: Peer, uid: int
) -> str | None:
    """Returns why the token must not be sent to this peer; None if it has proved itself."""
    if statement is None:
        return "it did not prove that it knows the token"
    expected = prove(proof_key(token_hash(token)), nonce, statement.place)
    if not hmac.compare_digest(expected.proof, statement.proof):
        return "it does not know the token"
    if statement.place == peer.place or peer.encrypted:
        return None
    # The proof is for another address: our own or root's tunnel or proxy, or a man in the middle.
    if is_foreign(peer.listeners, uid) or (peer.is_local and not peer.listeners):
        return f"it relays requests to the server at {statement.place}"
    return None


def _plain(address: str) -> str:
    """Returns an address without its zone; an IPv4-mapped address as IPv4."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)
