"""The state folder of this machine, separate from those of other machines that share the home.

An earlier andon kept these files in the folder above; they are moved here once.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from andon.errors import Conflict, Denied
from andon.host.files import make_private, open_regular
from andon.host.processes.kin import here
from andon.host.state import server_file
from andon.host.state.user_folder import HISTORY as HISTORY
from andon.host.state.user_folder import node_path as node_path
from andon.host.state.user_folder import (
    open_state_folder,
    refuse_anothers,
    refuse_foreign,
    state_folder,
)

EARLIER = frozenset({HISTORY, "audit.jsonl", "audit.jsonl.1", "turns.json", server_file.NAME})
_LOCK = ".lock"


def node_folder() -> Path:
    """The folder with what an earlier andon left; not created where there is nothing."""
    path = node_path()
    refuse_anothers(path)
    if path.is_dir() or not (_draft(path).is_dir() or _earlier(state_folder())):
        return path
    return open_node_folder()


def open_node_folder() -> Path:
    """The folder, created if necessary, accessible only to this user.

    It is complete as soon as it exists: files are moved into a draft, which then gets the name. A
    move that was interrupted is continued by the next call.
    """
    above, path = open_state_folder(), node_path()
    try:
        if not path.is_dir():
            make_private(path.parent)
            with _alone(path.parent):
                if not path.is_dir():
                    _fill(above, path)
    except OSError as exc:
        raise Denied(
            f"{path} cannot be created: {exc.strerror}",
            hint=f"check the owner and the file system of {path.parent}",
        ) from exc
    refuse_foreign(path)
    return path


def _fill(above: Path, path: Path) -> None:
    draft = _draft(path)
    make_private(draft)
    if _earlier(above) and not _is_used_elsewhere(above):
        _refuse_running(above)
        with server_file.sole_server(above):  # an earlier andon cannot start meanwhile
            _move(above, draft)
            (above / server_file.LOCK).unlink(missing_ok=True)
    draft.rename(path)


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.moving")


def _earlier(above: Path) -> list[str]:
    """The files to move; a database comes before the files that belong to it."""
    try:
        names = os.listdir(above)  # noqa: PTH208 - names alone
    except OSError:
        return []
    return sorted(name for name in names if name in EARLIER or name.startswith(HISTORY))


def _move(above: Path, draft: Path) -> None:
    for name in _earlier(above):
        # After an interrupted move an earlier andon may have begun a new history.
        separate = name.startswith(f"{HISTORY}-") and os.path.lexists(above / HISTORY)
        if not separate and not os.path.lexists(draft / name):
            (above / name).rename(draft / name)


def _is_used_elsewhere(above: Path) -> bool:
    """Whether a server on another machine uses the files above; they are then left to it."""
    said = server_file.announced(above)
    if said is None or said.boot in (None, here().boot):
        return False
    try:
        with server_file.sole_server(above):
            return False
    except Conflict:
        return True


def _refuse_running(above: Path) -> None:
    """Refuses while an earlier andon's server runs: it has its files open, and would create new
    ones in their place."""
    url = server_file.find(above)
    if url is not None:
        raise Conflict(
            f"a server of an earlier andon ({url}) uses {above}",
            hint="stop it, then start it again with this version, which moves its files",
        )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lets one process at a time create folders here; on a file system without locks it does not
    wait."""
    descriptor = open_regular(folder / _LOCK, os.O_RDWR | os.O_CREAT)
    try:
        if os.name != "nt":
            import fcntl

            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
