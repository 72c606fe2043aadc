"""Folders and files for their owner alone, whatever the umask says."""

import os
import stat
from pathlib import Path

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600


def make_private(folder: Path) -> None:
    """Make a folder and what is missing above it; OSError where that cannot be.

    A folder above it that anyone may write would let anyone put another in its place.
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
    else:  # a umask may also take from its owner what a folder needs
        folder.chmod(PRIVATE_FOLDER)


def make_private_file(path: Path) -> None:
    """An empty file where there is none; one that is there is left as it is."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        os.close(os.open(path, flags, PRIVATE_FILE))
    except FileExistsError:
        return


def others_may_write(folder: Path) -> bool:
    return bool(folder.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def expanded(path: str) -> Path:
    """With `~` and `~user` replaced; a user that does not exist stays as it is written."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises RuntimeError
