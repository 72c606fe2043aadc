"""A real server on loopback, as a process of its own, and ended in any case."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from tests.conftest import need
from tests.integration.conftest import Outcome

READY_SECONDS = 60.0


class Answer(Struct, frozen=True):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: str

    def json(self) -> Any:
        return json.loads(self.body)


class Served(Struct, frozen=True):
    """Where it is, and its secrets."""

    url: str
    port: int
    state: Path
    process: subprocess.Popen[str]
    told: str

    @property
    def token(self) -> str:
        return (self.state / "andon" / "token").read_text().strip()

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def ask(
        self, path: str, method: str = "GET", body: str | None = None, **headers: str
    ) -> Answer:
        """A request by hand: any Host, any header, and no help from a library."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=READY_SECONDS)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        host = named.pop("Host", f"localhost:{self.port}")
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in {"Host": host, **named}.items():
            connection.putheader(name, value)
        sent = (body or "").encode()
        if body is not None:
            connection.putheader("Content-Length", str(len(sent)))
        connection.endheaders(sent or None)
        answer = connection.getresponse()
        found = Answer(answer.status, dict(answer.getheaders()), answer.read().decode())
        connection.close()
        return found


@contextmanager
def serving(
    state: Path,
    *options: str,
    simulate: int | None = 2,
    umask: int = -1,
    port: int = 0,
    wrapped: Sequence[str] = (),
    python: str = sys.executable,
    module: str = "andon.cli",
    errors: IO[bytes] | int = subprocess.PIPE,
    **env: str,
) -> Iterator[Served]:
    """`andon serve`, ready to answer; over the node's own devices where none are simulated."""
    devices = ["--simulate", str(simulate)] if simulate else []
    command = [*wrapped, python, "-m", module, "serve", *devices,
               "--port", str(port), "--quiet", *options]  # fmt: skip
    surroundings = {**os.environ, "XDG_STATE_HOME": str(state), **env}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env=surroundings,
        umask=umask,
    )
    try:
        assert process.stdout is not None
        told = process.stdout.readline()
        found = re.search(r"(https?://\S+):(\d+)", told)
        assert found, told + (process.communicate(timeout=READY_SECONDS)[1] or "")
        yield Served(f"{found[1]}:{found[2]}", int(found[2]), state, process, told)
    finally:
        process.terminate()
        try:
            process.communicate(timeout=READY_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine, and its key."""
    need("openssl")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "1", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


def andon(state: Path, *arguments: str, **env: str) -> Outcome:
    done = subprocess.run(
        [sys.executable, "-m", "andon.cli", *arguments],
        capture_output=True, text=True, timeout=120,
        env={**os.environ, "XDG_STATE_HOME": str(state), **env},
    )  # fmt: skip
    return Outcome(done.returncode, done.stdout, done.stderr)
