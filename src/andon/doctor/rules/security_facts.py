"""Facts about who could read, forge or replace what, gathered by doctor/inspection/security."""

from enum import StrEnum

from msgspec import Struct

from andon.settings.table import USUAL_PORT


class StrayReason(StrEnum):
    """Why a file in a lease book is not an ordinary entry."""

    NOT_A_FILE = "not_a_file"  # a link, a pipe, a socket, a folder or a device
    MALFORMED = "malformed"  # its content is not an entry of this version
    CLOSED = "closed"  # other users cannot read it
    UNLOCKED = "unlocked"  # no process holds it, and it is old


class StrayFiles(Struct, frozen=True):
    """How many odd files of one kind a user has in one book, without their names."""

    odd: StrayReason
    owner: str
    uid: int
    count: int = 1


class Contents(Struct, frozen=True):
    """Contents of a lease book. `counts` lists the users with the most files, hidden included."""

    strays: tuple[StrayFiles, ...] = ()
    counts: tuple[tuple[str, int, int], ...] = ()  # owner, uid, files
    complete: bool = True  # False: there was more than is examined
    closed: bool = False  # the book, or a part of it, cannot be listed


class FileAccess(Struct, frozen=True):
    """A file or folder that andon relies on: its owner, and who else can access it."""

    name: str  # its purpose: token, history, ...
    path: str
    owner: str
    uid: int
    mode: int = 0o600
    kind: str = "file"  # file, folder, link, other


class PortListener(Struct, frozen=True):
    """A socket that listens on a TCP port of this machine."""

    address: str
    port: int
    owner: str
    uid: int
    loopback: bool = True


class RunningServer(Struct, frozen=True):
    """What this user's server.json says; `lives`: its process runs and is this user's."""

    path: str
    port: int
    tls: bool = False
    lives: bool = True


class Security(Struct, frozen=True):
    """All security facts."""

    state: tuple[FileAccess, ...] = ()  # the folder first, then its existing files
    above: tuple[FileAccess, ...] = ()  # its parent folders, nearest first
    unseen: str = ""  # why the state folder was not examined
    config: FileAccess | None = None
    server: RunningServer | None = None
    listeners: tuple[PortListener, ...] = ()  # on the usual port and on the server's own
    usual_port: int = USUAL_PORT
    protected_hardlinks: bool | None = None
    dmesg_restrict: bool | None = None
    kptr_restrict: int | None = None
