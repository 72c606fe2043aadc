"""The folder of what a user's server keeps, and its token: used only by the user who owns it."""

import os
from pathlib import Path

from andon.errors import Denied, Unavailable
from andon.host.folders import expanded, make_private, others_may_write
from andon.host.private_files import NotRegular, open_regular

TOKEN = "token"  # noqa: S105 (a file's name)
SHORTEST_TOKEN = 32
_LONGEST_BYTES = 4096
_ROOT = 0


def state_folder() -> Path:
    """Where this user's server keeps its token and its log."""
    return expanded(os.environ.get("XDG_STATE_HOME") or "~/.local/state") / "andon"


def open_state_folder() -> Path:
    """The folder, made if need be, for this user alone."""
    folder = state_folder()
    try:
        _check_place(folder)
        make_private(folder)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
        _check_owner(folder, folder.stat().st_uid, {_uid()})
    except OSError as exc:
        raise Denied(
            f"the state folder {folder} cannot be written: {exc.strerror}",
            hint="make it writable, or set XDG_STATE_HOME to a folder of yours",
        ) from exc
    if others_may_write(folder):
        raise Denied(f"others may write to the state folder {folder}", hint=f"chmod 700 {folder}")
    return folder


def is_own(folder: Path) -> bool:
    """Whether what is in a folder was written by this user: else it says nothing to us."""
    try:
        return folder.stat().st_uid == _uid() and not others_may_write(folder)
    except OSError:
        return False


def own_token(folder: Path) -> str:
    """The token of this user's own server; Unavailable where there is none."""
    try:
        _check_owner(folder, folder.stat().st_uid, {_uid()})
    except OSError as exc:
        raise Unavailable(f"there is no token in {folder}", hint="andon serve makes one") from exc
    return read_token(folder / TOKEN)


def read_token(path: Path) -> str:
    """The token in a file of this user's or root's that nobody else may read."""
    try:
        with os.fdopen(open_regular(path, follow=True), encoding="ascii") as file:
            status = os.fstat(file.fileno())
            text = file.read(_LONGEST_BYTES).strip()
    except FileNotFoundError as exc:
        raise Unavailable(f"there is no token in {path}", hint="andon serve makes one") from exc
    except NotRegular as exc:
        raise Denied(f"{path} is not a regular file", hint="a file of mode 600 is needed") from exc
    except (OSError, UnicodeDecodeError) as exc:
        raise Denied(
            f"the token in {path} cannot be read: {exc}", hint="whose file is it?"
        ) from exc
    _check_owner(path, status.st_uid, {_uid(), _ROOT})
    if status.st_mode & 0o077:
        raise Denied(f"others may read the token in {path}", hint="a file of mode 600 is needed")
    if len(text) < SHORTEST_TOKEN:
        raise Denied(f"what is in {path} is too short for a token", hint="andon serve makes one")
    return text


def _check_place(folder: Path) -> None:
    """A folder that is to be made must not come to lie in another user's: who owns the one above
    can put another in its place."""
    above = next((path for path in folder.parents if path.exists()), None)
    if above is not None and not folder.exists():
        _check_owner(above, above.stat().st_uid, {_uid(), _ROOT})


def _check_owner(path: Path, owner: int, allowed: set[int]) -> None:
    if owner in allowed or not hasattr(os, "geteuid"):
        return
    from andon.host.kin import user_name

    raise Denied(
        f"{path} belongs to {user_name(owner)} (uid {owner}), and andon runs as "
        f"{user_name(_uid())}: what another user wrote is not used",
        hint="sudo -H (a home of its own), or set XDG_STATE_HOME to a folder of "
        f"{user_name(_uid())}'s",
    )


def _uid() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0
