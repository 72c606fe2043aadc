"""Address of this user's server: a small file next to its token while it runs, and a lock that
allows one server per folder."""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta, Struct
from msgspec.structs import asdict

from andon.errors import Conflict, Denied
from andon.host.files import lock, open_regular, replace_file
from andon.host.machine_id import node_name
from andon.host.processes.kin import pid_scope, started_ticks
from andon.host.state.user_folder import SERVER_FILE, is_own
from andon.model.codec import Name, Whole, Wrong, read
from andon.model.lease import PidScope

NAME = SERVER_FILE
LOCK = "server.lock"
LONGEST_BYTES = 4096
MOST_PIDS = 1 << 22
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (reported, not bound)


class Announced(Struct, frozen=True):
    """The contents of a server's file: a pid is only valid in its boot and namespace."""

    url: Name
    pid: Annotated[int, Meta(ge=1, le=MOST_PIDS)]
    started_ticks: Whole | None = None
    boot: Name | None = None
    pid_namespace: Name | None = None
    node: Name | None = None


def announce(folder: Path, url: str, address: str) -> None:
    """Writes the server's address; failures are ignored."""
    own = _myself(local_url(url, address))
    with suppress(OSError):
        replace_file(folder / NAME, json.dumps(asdict(own)).encode())


def local_url(url: str, address: str) -> str:
    """Returns the address of the server on its own machine."""
    scheme, _, place = url.partition("://")
    port = place.rpartition(":")[2]
    host = EVERYWHERE.get(address, address)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def withdraw(folder: Path) -> None:
    """Removes the file if this process wrote it; another may have replaced it."""
    found = announced(folder)
    if found is not None and found == _myself(found.url):
        with suppress(OSError):
            (folder / NAME).unlink()


def announced(folder: Path) -> Announced | None:
    """Returns the file's content, if this user wrote it."""
    if not is_own(folder):
        return None
    try:
        with os.fdopen(open_regular(folder / NAME), "rb") as file:
            if os.fstat(file.fileno()).st_uid != folder.stat().st_uid:
                return None
            return parse(json.loads(file.read(LONGEST_BYTES)))
    except (OSError, ValueError, RecursionError):
        return None


def parse(content: object) -> Announced | None:
    """Parses the file's content; None if any field is wrong or missing."""
    try:
        found = read(Announced, content)
    except Wrong:
        return None
    return found if _is_url(found.url) else None


def find(folder: Path) -> str | None:
    """Returns the URL of a server that this user started and whose process runs, as far as
    visible here. The server itself must prove that it still listens there."""
    found = announced(folder)
    return None if found is None or gone(found) is not None else found.url


def stale(folder: Path) -> str | None:
    """Returns a sentence about a server that has ended without removing its file; else None."""
    found = announced(folder)
    reason = None if found is None else gone(found)
    if found is None or reason is None:
        return None
    return f"the last one ({found.url}, pid {found.pid}) {reason}"


def gone(server: Announced) -> str | None:
    """Returns why the process that wrote the file is not running, or not on this machine."""
    now = pid_scope()
    if server.boot != now.boot:
        if server.node != node_name():
            return f"was started on {str(server.node)[:64]!r}"
        return "was started before the last boot"
    if server.pid_namespace != now.pid_namespace:
        return None  # in another container: its pids mean nothing here
    return None if _runs(server, now) else f"ended without removing {NAME}"


def _runs(server: Announced, now: PidScope) -> bool:
    if now.boot is not None:  # Linux: a reused pid is recognised
        return (
            server.started_ticks is not None and started_ticks(server.pid) == server.started_ticks
        )
    try:
        os.kill(server.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


@contextmanager
def sole_server(folder: Path) -> Iterator[None]:
    """Holds the lock while a server uses the folder; raises Conflict if another one does.

    The kernel releases the lock with the process. The file stays: after a removal two processes
    could hold the lock.
    """
    path = folder / LOCK
    try:
        descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
    except OSError as exc:
        full = exc.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "free some space" if full else "remove it"
        raise Denied(f"{path} cannot be opened: {exc.strerror}", hint=hint) from exc
    try:
        if not _locked(descriptor):
            raise _taken(folder, os.pread(descriptor, LONGEST_BYTES, 0))
        with suppress(OSError):  # on a full disk: the lock counts, the pid is only shown
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Whether the file is locked; also True if the file system has no locks."""
    if os.name == "nt":
        return True
    try:
        lock(descriptor)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _taken(folder: Path, content: bytes) -> Conflict:
    pid = content.decode("ascii", "replace").strip()
    found = announced(folder)
    if found is not None and str(found.pid) == pid and gone(found) is None:
        who = f"pid {pid}, {found.url}"
    else:
        which = "an agent or a server that is starting"
        who = f"pid {pid}, {which}" if pid.isdecimal() else which
    return Conflict(
        f"another andon server uses the state folder {folder}: {who}",
        hint="use that one (andon open), or use another folder for this one: "
        "XDG_STATE_HOME=DIR andon serve",
    )


def _myself(url: str) -> Announced:
    pid, now = os.getpid(), pid_scope()
    return Announced(url, pid, started_ticks(pid), now.boot, now.pid_namespace, node_name())


def _is_url(url: str) -> bool:
    try:
        place = urlsplit(url)
        return place.scheme in ("http", "https") and bool(place.hostname) and place.port != 0
    except ValueError:
        return False
