"""The names of users, and their uids across user namespaces; `submit` must import little."""

import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

# The names of users; a separate module, because `submit` must import little.


@lru_cache(maxsize=1024)
def user_name(uid: int) -> str:
    """Returns the user's name, or the uid if there is none; cached, as a name service may be slow.

    Bytes that are no text are replaced: no file and no database would take them.
    """
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name.encode(errors="replace").decode()
    except (KeyError, OSError):
        return str(uid)


def account_name(uid: int) -> str | None:
    """Returns the name of an account; None if there is no such account.

    Not cached: a uid may be given to another person while a server runs.
    """
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OSError, OverflowError):
        return None


@lru_cache(maxsize=1024)
def system_groups(user: str) -> tuple[str, ...]:
    """Returns the names of a user's groups, the primary one first; none of an unknown user."""
    import grp
    import pwd

    try:
        gid = pwd.getpwnam(user).pw_gid
        gids = dict.fromkeys((gid, *os.getgrouplist(user, gid)))
    except (KeyError, OSError, ValueError):
        return ()
    names = list[str]()
    for one in gids:
        with suppress(KeyError, OSError):
            names.append(grp.getgrgid(one).gr_name.encode(errors="replace").decode())
    return tuple(names)


# Uids across user namespaces: inside one, root's files have no owner's number, and 0 is a user.

WHOLE = ((0, 0, 2**32 - 1),)
USUAL_OVERFLOW = 65534
_MAP, _OVERFLOW = Path("/proc/self/uid_map"), Path("/proc/sys/kernel/overflowuid")
_ROOTS = "/proc/sys"  # belongs to the machine's root wherever it is mounted


@lru_cache(maxsize=1)
def uid_map() -> tuple[tuple[int, int, int], ...]:
    """Returns the ranges of uids: the first uid in this namespace, the first outside, the
    length."""
    try:
        rows = [line.split() for line in _MAP.read_text(encoding="utf-8").splitlines()]
        return tuple((int(row[0]), int(row[1]), int(row[2])) for row in rows)
    except (OSError, ValueError, IndexError):
        return WHOLE


def is_machines() -> bool:
    """Whether uids in this namespace are the same as on the machine."""
    return uid_map() == WHOLE


@lru_cache(maxsize=1)
def overflow_uid() -> int:
    """Returns the uid that stands for every user whom a namespace does not include."""
    try:
        return int(_OVERFLOW.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return USUAL_OVERFLOW


def is_unknown(uid: int) -> bool:
    """Whether a file or process with this uid belongs to a user whom this namespace does not
    include: root, or anyone else."""
    return not is_machines() and uid == overflow_uid()


def machine_uid(uid: int) -> int:
    """Returns the machine's uid for a user of this namespace; that of `nobody` if it is unknown.

    In a nested namespace the number outside is only that of the namespace around it: a 0 is
    believed only if this namespace includes the machine's root.
    """
    for inside, outside, count in uid_map():
        if inside <= uid < inside + count:
            found = outside + uid - inside
            return overflow_uid() if found == 0 and not is_root(uid) else found
    return overflow_uid()


def is_root(uid: int) -> bool:
    """Whether a uid here is the machine's root, and not only root of a namespace."""
    if uid != 0 or is_machines():
        return uid == 0
    try:
        return os.stat(_ROOTS).st_uid == 0  # noqa: PTH116 - a tenth of the cost
    except OSError:
        return False
