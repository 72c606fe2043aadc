"""The state folder of a user with the token in it, and where the configuration file is.

A machine's own state is below it: see node_folder.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path

from andon.errors import Denied, Unavailable
from andon.host.files import (
    PRIVATE_FOLDER,
    NotRegular,
    expanded,
    home_folder,
    is_regular,
    make_private,
    open_regular,
    others_may_write,
    read_regular,
)
from andon.host.machine_id import node_key
from andon.host.users import is_root, user_name
from andon.units import sh

TOKEN = "token"  # noqa: S105 (a file's name)
SHORTEST_TOKEN = 32
NODES = "nodes"
RUNS = "runs"
CHECKS = "checks"  # of a machine
SERVER_FILE, HISTORY = "server.json", "history.db"  # of a machine
_LONGEST_BYTES = 4096
_ROOT = 0


def state_folder() -> Path:
    """Returns where this user's token and run files are; a relative XDG_STATE_HOME is ignored."""
    named = expanded(os.environ.get("XDG_STATE_HOME", ""))
    return (named if named.is_absolute() else home_folder() / ".local/state") / "andon"


def node_path() -> Path:
    """Returns where this machine's own state is, whether it exists or not."""
    return state_folder() / NODES / node_key()


def runs_folder() -> Path:
    """Returns where records of runs go unless a folder is named; not created."""
    return state_folder() / RUNS


def is_read_only(folder: Path) -> bool:
    """Whether the folder's whole file system is read-only."""
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def open_state_folder() -> Path:
    """Returns the folder, created if necessary, accessible only to this user."""
    folder = state_folder()
    refuse_anothers(folder)
    try:
        _check_place(folder)
        make_private(folder)
        if not os.access(folder, os.W_OK | os.X_OK):
            number = errno.EROFS if is_read_only(folder) else errno.EACCES
            raise OSError(number, os.strerror(number))
    except OSError as exc:
        raise Denied(
            f"the state folder {folder} cannot be written: {exc.strerror}",
            hint="make it writable, or set XDG_STATE_HOME to a folder of your own",
        ) from exc
    refuse_foreign(folder)
    _close_to_others(folder)
    return folder


def _close_to_others(folder: Path) -> None:
    """Makes the folder private, because another program or a umask may have made it readable. The
    files in it are private too, so a file system without modes is accepted."""
    if folder.stat().st_mode & 0o077:
        with suppress(OSError):
            folder.chmod(PRIVATE_FOLDER)


def refuse_foreign(folder: Path) -> None:
    """Raises Denied unless the folder belongs to this user and only this user can write to it."""
    _check_owner(folder, folder.stat().st_uid, {_uid()})
    if others_may_write(folder):
        raise Denied(
            f"other users can write to the state folder {folder}", hint=f"chmod 700 {sh(folder)}"
        )


def refuse_anothers(folder: Path) -> None:
    """Raises Denied if root, as with `sudo -E`, would write into another user's folder: every
    folder and link on the path must be root's. Other users are limited by the kernel."""
    if not is_root(_uid()):
        return
    for path in (folder, *folder.parents):
        with suppress(OSError):
            _check_owner(path, path.lstat().st_uid, {_ROOT})


def is_own(folder: Path) -> bool:
    """Whether only this user can have written the folder's content; otherwise it is ignored.

    A user who can write to the folders above a machine's own could replace it.
    """
    above = folder.parents[:2] if folder.parent.name == NODES else ()
    try:
        return all(
            one.stat().st_uid == _uid() and not others_may_write(one) for one in (folder, *above)
        )
    except OSError:
        return False


def own_token(folder: Path) -> str:
    """Returns the token of this user's own server; raises Unavailable if there is none."""
    try:
        _check_owner(folder, folder.stat().st_uid, {_uid()})
    except OSError as exc:
        raise Unavailable(f"no token found in {folder}", hint="andon serve creates one") from exc
    return read_token(folder / TOKEN)


def read_token(path: Path) -> str:
    """Returns the token in a file owned by this user or root that no one else can read."""
    try:
        with os.fdopen(open_regular(path, follow=True), encoding="ascii") as file:
            status = os.fstat(file.fileno())
            text = file.read(_LONGEST_BYTES).strip()
    except FileNotFoundError as exc:
        raise Unavailable(f"no token found in {path}", hint="andon serve creates one") from exc
    except NotRegular as exc:
        raise Denied(f"{path} is not a regular file", hint="replace it by a file") from exc
    except (OSError, UnicodeDecodeError) as exc:
        raise Denied(
            f"the token in {path} cannot be read: {exc}", hint="check its owner and mode"
        ) from exc
    _check_owner(path, status.st_uid, {_uid(), _ROOT})
    if status.st_mode & 0o077:
        raise Denied(f"other users can read the token in {path}", hint=f"chmod 600 {sh(path)}")
    if len(text) < SHORTEST_TOKEN:
        raise Denied(f"the token in {path} is too short", hint="andon serve creates one")
    return text


def _check_place(folder: Path) -> None:
    """Refuses to create a folder in another user's folder, whose owner could replace it."""
    above = next((path for path in folder.parents if path.exists()), None)
    if above is not None and not folder.exists():
        _check_owner(above, above.stat().st_uid, {_uid(), _ROOT})


def _check_owner(path: Path, owner: int, allowed: set[int]) -> None:
    if owner in allowed or not hasattr(os, "geteuid"):
        return
    raise Denied(
        f"{path} belongs to {user_name(owner)} (uid {owner}), and andon runs as "
        f"{user_name(_uid())}: another user's files are not used",
        hint=f"use sudo -H, or set XDG_STATE_HOME to a folder owned by {user_name(_uid())}",
    )


def _uid() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0


# The configuration file; apart from the settings, which most commands need not read.

LONGEST_CONFIG_BYTES = 1 << 20
SYSTEM_FILE = Path("/etc/andon/andon.toml")
POLICY_FILE = Path("/etc/andon/policy.toml")  # root's limits per user


def config_path() -> Path | None:
    """Returns the configuration file in use: that of ANDON_CONFIG, which --config sets so that
    every started process reads the same; else the user's, the system's if this user may read it (it
    may have secrets of root's server), or none."""
    if named := os.environ.get("ANDON_CONFIG"):
        return expanded(named)
    if is_regular(own := users_file()) and foreign_owner(own) is None:
        return own
    usable = is_regular(SYSTEM_FILE) and foreign_owner(SYSTEM_FILE) is None
    return SYSTEM_FILE if usable and os.access(SYSTEM_FILE, os.R_OK) else None


def users_file() -> Path:
    """Returns the user's own configuration file, whether it exists or not."""
    folder = os.environ.get("XDG_CONFIG_HOME")
    return (expanded(folder) if folder else home_folder() / ".config") / "andon" / "andon.toml"


def foreign_owner(path: Path) -> int | None:
    """Returns the user whose settings root would load, with notifier commands: root may have
    that user's HOME (`sudo -E`)."""
    try:
        owner = path.stat().st_uid
    except OSError:
        return None
    return owner if hasattr(os, "geteuid") and os.geteuid() == 0 != owner else None


def config_mentions(word: bytes) -> bool:
    """Whether the file contains this word, so that the settings must be read; also True if it
    cannot be read, because the settings explain that."""
    path = config_path()
    if path is None or str(path) == os.devnull:
        return False
    try:
        content = read_regular(path, LONGEST_CONFIG_BYTES, follow=True)
    except (OSError, ValueError):
        return True
    return word in content
