"""Which file system a folder is on, found in the mounts: a network file system whose server is
unreachable does not respond.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

NETWORK_SYSTEMS = frozenset(
    (
        "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs",
        "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs",
        "vboxsf", "virtiofs",
    )
)  # fmt: skip
"""Their locks may be per machine, late or missing, and an unreachable server hangs every call."""


class Mount(Struct, frozen=True):
    """One line of the mount table."""

    device: str
    folder: str
    kind: str


def parse_mounts(text: str) -> list[Mount]:
    """Parses the lines of /proc/<pid>/mounts; a space in a path is written \\040."""
    rows = (line.split(" ") for line in text.splitlines())
    return [Mount(*(_unescaped(part) for part in row[:3])) for row in rows if len(row) > 2]


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


@lru_cache(maxsize=8)  # mounts seldom change
def network_system(path: Path, mounts: str) -> str | None:
    """Returns the network file system that a folder is on; None for a local one."""
    kind = kind_of(path, [(one.folder, one.kind) for one in parse_mounts(mounts)])
    return kind if is_network(kind) else None


def is_network(kind: str) -> bool:
    """Whether it is a network file system; FUSE counts as one: what is behind it cannot be seen."""
    return kind in NETWORK_SYSTEMS or kind.partition(".")[0] == "fuse"


def kind_of(path: Path, mounts: Sequence[tuple[str, str]]) -> str:
    """Returns the file system of a path, given folders and kinds: that of the longest matching
    mount point; of several there, the last one is visible."""
    whole = f"{path}/"
    under = [
        (folder, kind) for folder, kind in mounts if whole.startswith(f"{folder.rstrip('/')}/")
    ]
    longest = max((len(folder) for folder, _ in under), default=0)
    return next((kind for folder, kind in reversed(under) if len(folder) == longest), "")


def read_mounts() -> str:
    """Returns the mounts, as the kernel lists them."""
    try:
        with open("/proc/self/mounts", "rb", buffering=0) as file:  # noqa: PTH123 - see below
            # In large pieces: the kernel makes the list again for each.
            pieces = iter(lambda: file.read(1 << 16), b"")
            return b"".join(pieces).decode(errors="surrogateescape")
    except OSError:
        return ""
