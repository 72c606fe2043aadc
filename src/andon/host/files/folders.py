"""Creates folders and files that only their owner can access, with any umask."""

import os
import stat
from pathlib import Path

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents; raises OSError on failure.

    A parent that anyone may write to would let anyone replace the folder.
    """
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_private(folder.parent)
    try:
        folder.mkdir(mode=PRIVATE_FOLDER)
    except FileExistsError:
        if not folder.is_dir():
            raise
    else:  # a umask may also remove the owner's own permissions
        folder.chmod(PRIVATE_FOLDER)


def make_private_file(path: Path) -> None:
    """Create an empty file; an existing one is left unchanged."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        os.close(os.open(path, flags, PRIVATE_FILE))
    except FileExistsError:
        return


def others_may_write(folder: Path) -> bool:
    return bool(folder.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def home_folder() -> Path:
    """Returns this user's home; `/`, as container engines have it, for a user without one."""
    found = expanded("~")
    return found if found.is_absolute() else Path("/")


def expanded(path: str) -> Path:
    """Expand `~` and `~user`; an unknown user is left as written."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises RuntimeError
