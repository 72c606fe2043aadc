"""Gathers access rights: device files, groups, mounts, and andon's own folders."""

import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from andon.doctor.inspection.books import read_contents
from andon.doctor.rules.facts import (
    BookFolder,
    CallingUser,
    Contents,
    DeviceFile,
    Folder,
    ProcVisibility,
)
from andon.host.file_systems import is_network, kind_of
from andon.host.files import BIG_BYTES, free_bytes, names_in, read_bytes
from andon.host.own_container import MountOptions
from andon.host.processes.procfs import parse_passwd

_NODES = re.compile(r"nvidia\d+|nvidiactl|nvidia-uvm|kfd")


def read_proc(mounts: list[MountOptions]) -> ProcVisibility:
    return judge_proc(mounts, os.geteuid(), {os.getegid(), *os.getgroups()})


def judge_proc(mounts: list[MountOptions], uid: int, groups: set[int]) -> ProcVisibility:
    """Judges how much of /proc is visible; the last mount on it counts."""
    proc = [mount for mount in mounts if mount.kind == "proc" and mount.folder == "/proc"]
    options = dict(o.partition("=")[::2] for o in (proc[-1].options if proc else ()))
    group = int(options["gid"]) if options.get("gid", "").isdecimal() else None
    return ProcVisibility(options.get("hidepid", ""), group, uid == 0 or group in groups)


# Device files and the user.


def read_nodes(own: Path, may_open: Callable[[Path], bool] | None = None) -> tuple[DeviceFile, ...]:
    """Returns the device files of GPUs; checked without opening them, which would wake a card."""
    groups = parse_groups(read_bytes(own / "etc/group", BIG_BYTES))
    paths = [own / "dev" / name for name in names_in(own / "dev") if _NODES.fullmatch(name)]
    renders = names_in(own / "dev/dri", 256)
    paths += [own / "dev/dri" / name for name in renders if name.startswith("renderD")]
    may = may_open or (lambda path: os.access(path, os.R_OK | os.W_OK))
    found = (_node(path, own, groups, may) for path in paths)
    return tuple(node for node in found if node is not None)


def _node(
    path: Path, own: Path, groups: Mapping[int, str], may: Callable[[Path], bool]
) -> DeviceFile | None:
    try:
        seen = path.stat()
    except OSError:
        return None
    group = groups.get(seen.st_gid, str(seen.st_gid))
    return DeviceFile(f"/{path.relative_to(own)}", stat.S_IMODE(seen.st_mode), group, may(path))


def read_user(own: Path, env: Mapping[str, str]) -> CallingUser:
    uid = os.getuid()
    users = parse_passwd(read_bytes(own / "etc/passwd", BIG_BYTES))
    name = users.get(uid) or env.get("USER") or env.get("LOGNAME") or str(uid)
    content = read_bytes(own / "etc/group", BIG_BYTES)
    groups = parse_groups(content)
    session = {os.getgid(), *os.getgroups()}
    names = tuple(sorted(groups.get(gid, str(gid)) for gid in session))
    return CallingUser(name, uid, names, parse_membership(content, name))


def parse_groups(content: bytes) -> dict[int, str]:
    """Parses /etc/group: gid -> name."""
    rows = (line.split(":") for line in os.fsdecode(content).splitlines())
    return {int(row[2]): row[0] for row in rows if len(row) > 2 and row[2].isdecimal()}


def parse_membership(content: bytes, user: str) -> tuple[str, ...]:
    """Parses the groups that list the user in /etc/group."""
    rows = (line.split(":") for line in os.fsdecode(content).splitlines())
    return tuple(sorted(row[0] for row in rows if len(row) > 3 and user in row[3].split(",")))


# andon's folders.


def read_folder(path: Path, mounts: list[MountOptions]) -> Folder:
    """Whether a folder is writable, and its free space; a network file system is not touched."""
    kind = kind_of(path, [(one.folder, one.kind) for one in mounts])
    if is_network(kind):
        return Folder(str(path), kind=kind, remote=True)
    nearest = next((p for p in (path, *path.parents) if p.exists()), None)
    if nearest is None:
        return Folder(str(path), kind=kind, writable=False)
    writable = nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    return Folder(str(path), nearest == path, writable, free_bytes(nearest), kind)


def read_books(own: Path, places: list[Path]) -> tuple[BookFolder, ...]:
    users = parse_passwd(read_bytes(own / "etc/passwd", BIG_BYTES))
    found = (_book(path, users) for path in dict.fromkeys(places))
    return tuple(book for book in found if book is not None)


def _book(path: Path, users: Mapping[int, str]) -> BookFolder | None:
    try:
        seen = path.lstat()
    except OSError:
        return None
    leases = path / "leases"
    try:
        leases_mode = stat.S_IMODE(leases.lstat().st_mode)
    except OSError:
        leases_mode = None
    owner = users.get(seen.st_uid, str(seen.st_uid))
    link = not stat.S_ISDIR(seen.st_mode)
    mode = 0o755 if link else stat.S_IMODE(seen.st_mode)
    contents = Contents() if link else read_contents(path, users)
    return BookFolder(str(path), owner, seen.st_uid, mode, link, leases_mode, contents)
