"""How a server proves that it knows a token before the token is sent to it.

The client sends a random nonce. The server answers with its own address and an HMAC, keyed with the
token, over the nonce and that address. A listener that does not know the token cannot answer, and
one that passes the question on to the real server names the real server's address and not its own.
"""

import hmac
import ipaddress
from collections.abc import Set
from dataclasses import dataclass

PATH = "/api/proof"
NONCE_BYTES = 32
ROOT = 0

# Each use of the token has a text of its own: no answer can serve as any other secret.
_KEY = b"andon.proof/1 key"
_STATEMENT = b"andon.proof/1 server statement"
_LONGEST_PLACE = 100


@dataclass(frozen=True, slots=True)
class Statement:
    """What a server answers: the address at which it was asked, and the proof."""

    place: str
    proof: str


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end of a connection, as far as this machine can tell."""

    address: str
    port: int
    encrypted: bool = False  # TLS has verified its name already
    listeners: Set[int] = frozenset()  # the users who listen there; empty where that is unknown

    @property
    def place(self) -> str:
        return place_of(self.address, self.port)

    @property
    def is_local(self) -> bool:
        return ipaddress.ip_address(_plain(self.address)).is_loopback


def proof_key(token: str) -> bytes:
    """The key of all proofs; the token cannot be computed from it."""
    return hmac.digest(token.encode("utf-8", "surrogateescape"), _KEY, "sha256")


def prove(key: bytes, nonce: bytes, place: str) -> Statement:
    """The server's answer."""
    if len(nonce) != NONCE_BYTES or len(place) > _LONGEST_PLACE:
        raise ValueError("a nonce has 32 bytes, and an address is short")
    message = _STATEMENT + b"\0" + nonce + b"\0" + place.encode("ascii", "replace")
    return Statement(place, hmac.digest(key, message, "sha256").hex())


def place_of(address: str, port: int) -> str:
    """An address and port, written the same way at both ends of a connection."""
    plain = _plain(address)
    return f"[{plain}]:{port}" if ":" in plain else f"{plain}:{port}"


def parse_statement(said: object) -> Statement | None:
    """What a stranger answered; None where it is no statement."""
    if not isinstance(said, dict):
        return None
    place, proof = said.get("address"), said.get("proof")
    if not isinstance(place, str) or not isinstance(proof, str):
        return None
    if not 0 < len(place) <= _LONGEST_PLACE or len(proof) != 64:
        return None
    return Statement(place, proof) if (place + proof).isascii() else None


def is_foreign(listeners: Set[int], uid: int) -> bool:
    """Whether a user other than this one and root listens there, as far as that is known."""
    return bool(listeners - {uid, ROOT})


def doubt(said: Statement | None, token: str, nonce: bytes, peer: Peer, uid: int) -> str | None:
    """Why the token may not be sent to this peer; None where it has proved itself."""
    if said is None:
        return "it did not prove that it knows the token"
    expected = prove(proof_key(token), nonce, said.place)
    if not hmac.compare_digest(expected.proof, said.proof):
        return "it does not know the token"
    if said.place == peer.place or peer.encrypted:
        return None
    # The proof is another address's: a tunnel or a proxy of ours or root's, or a man between.
    if is_foreign(peer.listeners, uid) or (peer.is_local and not peer.listeners):
        return f"it passes requests on to the server at {said.place}"
    return None


def _plain(address: str) -> str:
    """Without a zone, and an IPv4 address as one."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)
