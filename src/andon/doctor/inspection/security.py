"""Gathers who could read or replace this user's state folder, token, settings and ports."""

import ipaddress
import json
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from andon.doctor.rules.facts import FileAccess, PortListener, RunningServer, Security
from andon.host.files import BIG_BYTES, parse_uid, read_bytes, read_text
from andon.host.processes.kin import pid_scope
from andon.host.processes.procfs import parse_passwd
from andon.host.rules.proc_stat import parse_stat
from andon.host.state.server_file import LONGEST_BYTES, Announced, parse
from andon.node.usual_server import usual_port

OWN_NAMES = {"token": "token", "runs' folder": "runs"}
NODE_NAMES = {"audit log": "audit.jsonl", "server's address": "server.json"}
MOST_LISTENERS = 16
_LISTENING = "0A"


def read_security(
    state: Path | None,
    config: Path | None = None,
    own: Path = Path("/"),
    unseen: str = "",
    node: str = "",
    stored: Mapping[str, Path] = MappingProxyType({}),
) -> Security:
    """Returns everything but the lease books. `state` is None if the folder must not be touched;
    `node` is this machine's folder in it, `stored` the store's files by purpose."""
    users = parse_passwd(read_bytes(own / "etc/passwd", BIG_BYTES))
    server = None if state is None else read_server(state / node, own)
    usual = usual_port()
    ports = {usual} | ({server.port} if server is not None else set())
    return Security(
        state=() if state is None else read_state(state, users, node, stored),
        above=() if state is None else read_above(state, users),
        unseen=unseen,
        config=None if config is None else file_access("settings", config, users, follow=True),
        server=server,
        listeners=read_listeners(ports, users, own),
        usual_port=usual,
        protected_hardlinks=_flag(own, "fs/protected_hardlinks"),
        dmesg_restrict=_flag(own, "kernel/dmesg_restrict"),
        kptr_restrict=_number(own, "kernel/kptr_restrict"),
    )


# Files and folders.


def read_state(
    folder: Path,
    users: Mapping[int, str],
    node: str = "",
    stored: Mapping[str, Path] = MappingProxyType({}),
) -> tuple[FileAccess, ...]:
    """Returns the folder, this machine's folder in it, and their existing files."""
    first = file_access("folder", folder, users, follow=True)
    if first is None:
        return ()
    files = {name: folder / file for name, file in OWN_NAMES.items()}
    files |= {"machine's folder": folder / node} if node else {}
    files |= {name: folder / node / file for name, file in NODE_NAMES.items()} | dict(stored)
    found = (file_access(name, path, users) for name, path in files.items())
    return (first, *(file for file in found if file is not None))


def read_above(folder: Path, users: Mapping[int, str]) -> tuple[FileAccess, ...]:
    """Returns the folders above it, with links resolved."""
    try:
        parents = folder.resolve().parents
    except (OSError, RuntimeError):
        return ()
    found = (file_access("above", parent, users) for parent in parents)
    return tuple(file for file in found if file is not None)


def file_access(
    name: str, path: Path, users: Mapping[int, str], follow: bool = False
) -> FileAccess | None:
    """Returns owner, mode and kind, without opening the file."""
    try:
        seen = path.stat() if follow else path.lstat()
    except (OSError, ValueError):
        return None
    owner = users.get(seen.st_uid, str(seen.st_uid))
    return FileAccess(name, str(path), owner, seen.st_uid, stat.S_IMODE(seen.st_mode), _kind(seen))


def _kind(seen: os.stat_result) -> str:
    if stat.S_ISREG(seen.st_mode):
        return "file"
    if stat.S_ISDIR(seen.st_mode):
        return "folder"
    return "link" if stat.S_ISLNK(seen.st_mode) else "other"


# The server.


def read_server(state: Path, own: Path = Path("/")) -> RunningServer | None:
    """Reads server.json; its process counts only if owner and start time match.

    A process in another namespace is not visible here: then the owner of the port decides.
    """
    path = state / NODE_NAMES["server's address"]
    try:
        announced = parse(json.loads(read_bytes(path, LONGEST_BYTES)))
    except (ValueError, RecursionError):
        return None
    place = None if announced is None else urlsplit(announced.url)
    if announced is None or place is None or not place.port:
        return None
    return RunningServer(str(path), place.port, place.scheme == "https", _lives(announced, own))


def _lives(announced: Announced, own: Path) -> bool:
    now = pid_scope()
    if announced.boot not in (None, now.boot):
        return False
    if announced.pid_namespace not in (None, now.pid_namespace):
        return True
    folder = own / f"proc/{announced.pid}"
    if parse_uid(read_bytes(folder / "status", 4096)) != os.geteuid():
        return False
    stat = parse_stat(read_bytes(folder / "stat", 4096))
    return announced.started_ticks in (None, None if stat is None else stat.start_ticks)


def read_listeners(
    ports: set[int], users: Mapping[int, str], own: Path = Path("/")
) -> tuple[PortListener, ...]:
    """Returns who listens on these ports; the kernel lists listening sockets first."""
    found: list[PortListener] = []
    for name in ("tcp", "tcp6"):
        text = read_text(own / "proc/net" / name, BIG_BYTES)
        found += [listener for port in ports for listener in parse_listeners(text, port, users)]
    return tuple(dict.fromkeys(found))[:MOST_LISTENERS]


def parse_listeners(text: str, port: int, users: Mapping[int, str]) -> list[PortListener]:
    """Reads listeners from the lines of /proc/net/tcp: local address, state and uid."""
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 8 or fields[3] != _LISTENING or not fields[7].isdecimal():
            continue
        place, _, number = fields[1].rpartition(":")
        address = parse_address(place)
        if number.upper() == f"{port:04X}" and address is not None:
            uid = int(fields[7])
            owner = users.get(uid, str(uid))
            mapped = getattr(address, "ipv4_mapped", None) or address
            found.append(PortListener(str(address), port, owner, uid, mapped.is_loopback))
    return found


def parse_address(
    text: str, little: bool = sys.byteorder == "little"
) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parses an address as the kernel prints it: 32-bit words in the machine's byte order."""
    try:
        content = bytes.fromhex(text)
    except ValueError:
        return None
    if len(content) not in (4, 16):
        return None
    if little:
        content = b"".join(content[n : n + 4][::-1] for n in range(0, len(content), 4))
    return ipaddress.ip_address(content)


# The kernel's settings; read, never changed.


def _flag(own: Path, name: str) -> bool | None:
    number = _number(own, name)
    return None if number is None else number > 0


def _number(own: Path, name: str) -> int | None:
    text = read_text(own / "proc/sys" / name).strip()
    return int(text) if text.isdecimal() else None
