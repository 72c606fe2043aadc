"""The latest snapshot of this machine's server, through its local socket: one exchange, no
driver.

The kernel identifies the listener, so that neither side needs a proof. No HTTP client is loaded.
"""

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from andon.access.look import SCHEMA, is_trusted, look_names
from andon.errors import AndonError
from andon.host.port_listeners import SYSTEM_UIDS
from andon.host.socket_peers import code_stamp, connect, peer_uid
from andon.host.state.user_folder import SERVER_FILE, is_own, node_path
from andon.model import wire_in
from andon.model.codec import prepared
from andon.model.lamp import DeviceLamp
from andon.model.verdict import DeviceVerdict
from andon.node.latest_snapshot import as_seen_here, is_here, is_simulated_here
from andon.node.usual_server import usual_port
from andon.sampling.rules.told import ServerSnapshot

TIMEOUT_SECONDS = 1.0
MOST_BYTES = 64 << 20
PIECE_BYTES = 1 << 18
LARGEST_TABLE = 4 << 20
UNIX_SOCKETS = Path("/proc/net/unix")


class Look(msgspec.Struct, frozen=True):
    """The answer of a server."""

    schema: str
    interval_seconds: float
    snapshot: msgspec.Raw
    lamps: tuple[DeviceLamp, ...] | None = None
    verdicts: tuple[DeviceVerdict, ...] | None = None
    listed_at: float = 0.0
    code: str = ""


def server_look(
    name: str | None, root: Path, commands: bool, timeout_seconds: float = TIMEOUT_SECONDS
) -> ServerSnapshot | None:
    """Returns the snapshot of this user's own server, else of the system's; None if neither has
    one of this machine. On a machine without GPUs it may be one of simulated devices."""
    for body in _answers(time.monotonic() + timeout_seconds):
        try:
            look = msgspec.json.decode(body, type=prepared(Look))
            same = look.code != "" and look.code == code_stamp()
            read = wire_in.own_snapshot_from_json if same else wire_in.snapshot_from_json
            snapshot = read(msgspec.json.decode(look.snapshot))
        except (AndonError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            continue
        if look.schema == SCHEMA and (
            is_here(snapshot, name, root) or is_simulated_here(snapshot, name, root)
        ):
            seen = as_seen_here(snapshot, root, commands)
            masked = not all(status.visible for status in seen.devices)
            verdicts = None if masked else look.verdicts
            said = look.lamps, verdicts, look.listed_at
            return ServerSnapshot(seen, look.interval_seconds, *said)
    return None


def _answers(deadline: float) -> Iterator[bytes]:
    try:
        with UNIX_SOCKETS.open("rb") as file:
            table = file.read(LARGEST_TABLE)
    except OSError:
        return
    for port in dict.fromkeys(filter(None, (_own_port(), usual_port()))):
        for name in look_names(table, port):
            try:
                if (found := _asked(name, deadline)) is not None:
                    yield found
            except OSError:
                continue


def _asked(name: str, deadline: float) -> bytes | None:
    """Returns what a trusted listener sends; None from any other."""
    with closing(connect(name, max(0.01, deadline - time.monotonic()))) as connection:
        if not is_trusted(peer_uid(connection), os.geteuid(), SYSTEM_UIDS):
            return None
        pieces, size = list[bytes](), 0
        while piece := connection.recv(PIECE_BYTES):
            pieces.append(piece)
            size += len(piece)
            if size > MOST_BYTES or time.monotonic() > deadline:
                return None
        return b"".join(pieces)


def _own_port() -> int | None:
    """Returns the port of the address that this user's server wrote."""
    folder = node_path()
    try:
        if not is_own(folder):
            return None
        said = msgspec.json.decode((folder / SERVER_FILE).read_bytes()[:LARGEST_TABLE])
        port = str(said["url"]).rpartition(":")[2]
        return int(port) if port.isdecimal() and len(port) <= 5 else None
    except (OSError, ValueError, LookupError, TypeError):
        return None
