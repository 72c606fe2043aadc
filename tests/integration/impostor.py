"""Another user's listener that records what it is sent.

It is a program, too: `impostor.py UID HOST PORT MODE FILE`. As for its modes: `answer` says what
a quiet server says, `redirect=URL` sends every caller elsewhere, `relay=PORT` passes everything on
to a server on 127.0.0.1 and back, `local=HEX` says these bytes at a local socket of this port.
"""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from msgspec import Struct

NOBODY = 65534
REST = "andon-rest/"  # as in access/local_rest.py
QUIET = {
    "schema": "andon.alerts/1", "node": "n", "at": 1.0, "simulated": False, "worst": None,
    "alerts": [], "silences": [], "total": 0, "note": None, "code": "\x1b[31mevil",
    "rules": [], "results": [],
}  # fmt: skip


class Impostor(Struct, frozen=True):
    """Where it listens, and what it heard."""

    host: str
    port: int
    heard: Path
    process: subprocess.Popen[str]

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def text(self) -> str:
        return self.heard.read_text(encoding="latin-1")


@contextmanager
def impostor(
    folder: Path,
    mode: str = "answer",
    host: str = "127.0.0.1",
    port: int = 0,
    uid: int = NOBODY,
) -> Iterator[Impostor]:
    """Listens as another user until the end of the block."""
    heard = folder / f"heard-{os.urandom(4).hex()}"
    command = [sys.executable, __file__, str(uid), host, str(port), mode, str(heard)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Impostor(host, int(process.stdout.readline()), heard, process)
    finally:
        process.kill()
        process.communicate()


def local_impostor(folder: Path, port: int, says: bytes) -> AbstractContextManager[Impostor]:
    """The same at a local socket whose name is that of a server at this port."""
    return impostor(folder, f"local={says.hex()}", port=port)


def main(uid: int, host: str, port: int, mode: str, heard: str) -> None:
    "".encode("idna")  # loaded while its file may be read
    record = os.open(heard, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    with _door(host, port, mode) as listening:
        print(port or listening.getsockname()[1], flush=True)
        while True:
            caller, _ = listening.accept()
            threading.Thread(target=_serve, args=(caller, mode, record), daemon=True).start()


def _door(host: str, port: int, mode: str) -> socket.socket:
    if not mode.startswith("local="):
        return socket.create_server((host, port))
    door = socket.socket(socket.AF_UNIX)
    door.bind(f"\0{REST}{port}/{'0' * 32}")
    door.listen()
    return door


def _serve(caller: socket.socket, mode: str, record: int) -> None:
    kind, _, where = mode.partition("=")
    with caller, suppress(OSError):
        if kind == "local":
            caller.sendall(bytes.fromhex(where))
            caller.shutdown(socket.SHUT_WR)
        if kind == "relay":
            _relay(caller, int(where), record)
            return
        rest = b""
        while piece := caller.recv(65536):
            os.write(record, piece)
            rest += piece
            while b"\r\n\r\n" in rest:
                _, _, rest = rest.partition(b"\r\n\r\n")
                caller.sendall(_answer(kind, where))


def _answer(kind: str, where: str) -> bytes:
    if kind == "redirect":
        return f"HTTP/1.1 307 x\r\nLocation: {where}\r\nContent-Length: 0\r\n\r\n".encode()
    body = json.dumps(QUIET).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def _relay(caller: socket.socket, port: int, record: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as server:

        def back() -> None:
            with suppress(OSError):
                while piece := server.recv(65536):
                    caller.sendall(piece)
            with suppress(OSError):
                caller.shutdown(socket.SHUT_RDWR)

        threading.Thread(target=back, daemon=True).start()
        while piece := caller.recv(65536):
            os.write(record, piece)
            server.sendall(piece)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5])
