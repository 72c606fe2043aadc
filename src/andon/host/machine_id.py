"""Which machine this is, for a home folder that several machines share."""

import re
from pathlib import Path

from andon.host.private_files import read_regular

LETTERS = 12
FILES = ("etc/machine-id", "var/lib/dbus/machine-id")
_LARGEST_BYTES = 256
_ID = re.compile(r"[0-9a-f]{32}")  # "uninitialized" during a first boot is none


def node_key(root: Path = Path("/")) -> str:
    """The first 12 characters of the machine id; without one, a hash of the host name."""
    found = next((known for name in FILES if (known := _read(root / name))), None)
    return (found or _of_name())[:LETTERS]


def _of_name() -> str:
    """Imported only where it is needed: every submission of a job asks for the key."""
    import hashlib

    from andon.host.system import node_name

    return hashlib.sha256(node_name().encode()).hexdigest()


def _read(path: Path) -> str | None:
    try:
        text = read_regular(path, _LARGEST_BYTES, follow=True).decode("ascii").strip()
    except (OSError, ValueError):
        return None
    return text if _ID.fullmatch(text) and text.strip("0") else None
