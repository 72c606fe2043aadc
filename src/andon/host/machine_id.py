"""Which machine this is, by name, by boot, and for a home folder that several machines share."""

import os
from functools import cache
from pathlib import Path

from andon.host.files import read_regular
from andon.units import printable

LETTERS = 12
FILES = ("etc/machine-id", "var/lib/dbus/machine-id")
_LARGEST_BYTES = 256
_ID_LETTERS, _HEX = 32, frozenset("0123456789abcdef")


def node_key(root: Path = Path("/")) -> str:
    """Returns the first 12 characters of the machine id; without one, a hash of the host name."""
    found = next((known for name in FILES if (known := _read(root / name))), None)
    return (found or _of_name())[:LETTERS]


def node_name() -> str:
    """Returns the host name; bytes that are no text are escaped, as in every other name."""
    name = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME")
    return printable(name or "localhost")


def boot_id(root: Path | None = None) -> str | None:
    """Returns the kernel's id of this boot; None if the system has none."""
    return _this_boot() if root is None else _boot_below(root)


@cache
def _this_boot() -> str | None:
    return _boot_below(Path("/"))


def _boot_below(root: Path) -> str | None:
    try:
        return (root / "proc/sys/kernel/random/boot_id").read_text("utf-8").strip() or None
    except (OSError, ValueError):
        return None


def _of_name() -> str:
    """Returns a hash of the host name; imports on demand, because `submit` must be quick."""
    import hashlib

    return hashlib.sha256(node_name().encode()).hexdigest()


def _read(path: Path) -> str | None:
    try:
        text = read_regular(path, _LARGEST_BYTES, follow=True).decode("ascii").strip()
    except (OSError, ValueError):
        return None
    valid = len(text) == _ID_LETTERS and _HEX.issuperset(text)  # during a first boot it is not
    return text if valid and text.strip("0") else None
