"""Accounts of this machine, and how a process of root becomes one of them for good."""

import os
from pathlib import Path

from msgspec import Struct

_NO_NEW_PRIVS = 38  # of prctl
_MEMORY_BYTES = 2 << 30
_FILE_BYTES = 1 << 30
_MOST_FILES = 128


class UserAccount(Struct, frozen=True):
    """A user with a home folder, as the password database has it."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str
    home: str


def account_of(who: int | str) -> UserAccount | None:
    """Returns an account by uid or name; None without such an account, or without a home. Not
    cached: a uid may be given to another person while a server runs."""
    import pwd

    try:
        found = pwd.getpwuid(who) if isinstance(who, int) else pwd.getpwnam(who)
        groups = os.getgrouplist(found.pw_name, found.pw_gid)
        found.pw_name.encode()
    except (KeyError, OSError, OverflowError, ValueError):
        return None
    if not Path(found.pw_dir).is_absolute():
        return None
    return UserAccount(found.pw_uid, found.pw_gid, tuple(groups), found.pw_name, found.pw_dir)


def become(account: UserAccount) -> None:
    """Gives up root's rights for those of this user. There is no way back, no setuid program
    gives more, and the kernel lets this process start no other one. Raises OSError if that
    fails."""
    import ctypes
    import resource

    if account.uid == 0:
        raise PermissionError(1, "root is not another user")
    os.setgroups(account.groups)
    os.setresgid(account.gid, account.gid, account.gid)
    os.setresuid(account.uid, account.uid, account.uid)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs cannot be set")
    for kind, most in (
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_AS, _MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, _FILE_BYTES),
        (resource.RLIMIT_NOFILE, _MOST_FILES),
    ):
        resource.setrlimit(kind, (most, most))
    if os.getresuid() != (account.uid,) * 3 or os.getresgid() != (account.gid,) * 3:
        raise PermissionError(1, "the rights of root could not be given up")
