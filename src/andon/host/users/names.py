"""The names of users; a separate module, because `submit` must import little."""

from functools import lru_cache


@lru_cache(maxsize=1024)
def user_name(uid: int) -> str:
    """The user's name, or the uid if there is none; cached, as a name service may be slow.

    Bytes that are no text are replaced: no file and no database would take them.
    """
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name.encode(errors="replace").decode()
    except (KeyError, OSError):
        return str(uid)


def account_name(uid: int) -> str | None:
    """The name of an account as it is now; None where there is no such account.

    Not cached: a uid may be given to another person while a server runs.
    """
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OSError, OverflowError):
        return None
