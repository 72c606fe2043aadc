"""What is known about who could read, forge or replace what: facts of host/inspection_security."""

from dataclasses import dataclass
from enum import StrEnum


class Odd(StrEnum):
    """Why a file in a lease book is not an ordinary entry."""

    NOT_A_FILE = "not_a_file"  # a link, a pipe, a socket, a folder or a device
    MALFORMED = "malformed"  # its content is not an entry of this version
    CLOSED = "closed"  # its mode keeps others from reading it
    UNLOCKED = "unlocked"  # no process holds it, and it has been there for a while


@dataclass(frozen=True, slots=True)
class Stray:
    """How many odd files of one kind a user has in one book; never their names, which he chose."""

    odd: Odd
    owner: str
    uid: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class Contents:
    """What lies in a lease book. `counts` names the users with the most files, hidden ones too."""

    strays: tuple[Stray, ...] = ()
    counts: tuple[tuple[str, int, int], ...] = ()  # owner, uid, files
    complete: bool = True  # False: there was more than is looked at
    closed: bool = False  # the book, or a part of it, may not be listed


@dataclass(frozen=True, slots=True)
class Kept:
    """A file or folder that andon relies on: whose it is, and who else may touch it."""

    name: str  # what it is to andon: token, history, ...
    path: str
    owner: str
    uid: int
    mode: int = 0o600
    kind: str = "file"  # file, folder, link, other


@dataclass(frozen=True, slots=True)
class PortListener:
    """A socket that listens on a TCP port of this machine."""

    address: str
    port: int
    owner: str
    uid: int
    loopback: bool = True


@dataclass(frozen=True, slots=True)
class RunningServer:
    """What this user's server.json says; `lives`: its process is there and this user's."""

    path: str
    port: int
    tls: bool = False
    lives: bool = True


@dataclass(frozen=True, slots=True)
class Security:
    """All of it."""

    state: tuple[Kept, ...] = ()  # the folder first, then the files in it that exist
    above: tuple[Kept, ...] = ()  # the folders above it, the nearest first
    unseen: str = ""  # why the state folder was not examined
    config: Kept | None = None
    server: RunningServer | None = None
    listeners: tuple[PortListener, ...] = ()  # on the usual port and on the server's own
    usual_port: int = 26366
    protected_hardlinks: bool | None = None
    dmesg_restrict: bool | None = None
    kptr_restrict: int | None = None
