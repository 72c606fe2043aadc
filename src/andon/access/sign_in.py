"""How a user of this machine signs in to a server that another user runs.

The server listens on a local socket with a random name, which it gives out over its port. The
kernel identifies the user who connects, so the client sends nothing: the server answers with a
one-time code for that user. The client checks that the socket belongs to the user who listens on
the port.
"""

import json
import re
from collections.abc import Iterator, Set

from msgspec import Struct

SCHEMA = "andon.sign-in/1"
PREFIX = "andon-sign-in/"
LARGEST_BYTES = 4096
_NAME = re.compile(re.escape(PREFIX) + r"([0-9]{1,5})/([0-9a-f]{32})", re.ASCII)
_CODE = re.compile(r"[A-Za-z0-9_-]{16,256}", re.ASCII)
_URL = re.compile(r"https?://[A-Za-z0-9_.:\[\]-]{1,255}", re.ASCII)


class SignInAnswer(Struct, frozen=True):
    """The server's answer to a user who connects: a code for this user, or why there is none."""

    url: str
    port: int
    user: str
    code: str = ""
    reason: str = ""
    hint: str = ""


def socket_name(port: int, random_hex: str) -> str:
    """A random name, so that no one can take it first; the port in it helps to find servers."""
    return f"{PREFIX}{port}/{random_hex}"


def is_socket_name(name: object) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def announced_ports(table: str) -> Iterator[int]:
    """Yields the ports of servers in the kernel's table of Unix sockets (/proc/net/unix).

    Anyone can choose such a name: it is only a hint, and proves nothing.
    """
    for line in table.splitlines():
        found = _NAME.fullmatch(line.rpartition(" @")[2])
        if found is not None and 0 < int(found[1]) < 65536:
            yield int(found[1])


def dump_answer(answer: SignInAnswer) -> bytes:
    document = {"schema": SCHEMA, "url": answer.url, "port": answer.port, "user": answer.user}
    more = {"code": answer.code, "reason": answer.reason, "hint": answer.hint}
    return json.dumps(document | {name: text for name, text in more.items() if text}).encode()


def parse_answer(content: bytes) -> SignInAnswer | None:
    """Reads a complete answer, else returns None: a process that listens there may send
    anything."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return None
    texts = [document.get(name, "") for name in ("url", "user", "code", "reason", "hint")]
    port = document.get("port")
    if type(port) is not int or not all(isinstance(one, str) for one in texts):
        return None
    url, user, code, reason, hint = texts
    if not _URL.fullmatch(url) or not user or not user.isprintable():
        return None
    if not (reason if not code else _CODE.fullmatch(code)):
        return None
    return SignInAnswer(url, port, user[:100], code, reason[:300], hint[:300])


def socket_doubt(socket_uid: int, listeners: Set[int]) -> str | None:
    """Returns why the socket is not the requested server's; None if the same user has both."""
    if not listeners:
        return "who listens on that port cannot be seen from here"
    if set(listeners) != {socket_uid}:
        return "its sign-in socket belongs to another user"
    return None


def answer_doubt(answer: SignInAnswer, port: int) -> str | None:
    """Returns why the answer is not from this port's server: a listener may only relay requests."""
    return None if answer.port == port else f"it relays requests to the server at {answer.url}"
