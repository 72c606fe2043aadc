"""A real server to fuzz: simulated devices, an honest lease, a log in a file, known secrets."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec import Struct, field

from tests.fuzz.chance import SECONDS
from tests.integration.serving import Served, serving
from tests.support.waiting import wait_for

LIMIT_SECONDS = 60.0
"""An answer must come within this; the machine may be busy with other tests."""
DEVICES = 16  # most are busy, with command lines to keep; some are free
MOST_LOG_BYTES = 1_000_000
LEASE_SECONDS = 300 + SECONDS
COMMAND = "python train.py --customer fuzz-4f1c9 --password-file /home/alice/p"
SHORTEST_SECRET = 12


class Target(Struct, frozen=True):
    """The server, the lease that must stay, and what nobody may see without the token."""

    served: Served
    book: Path
    log: Path
    lease: str
    fence: int
    secrets: tuple[str, ...]
    lent: dict[str, int] = field(default_factory=dict)  # every lease of this server, its fence

    def get(self, path: str, trusted: bool = False) -> tuple[int, str]:
        return self.ask("GET", path, self.served.bearer if trusted else {})

    def ask(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None = None
    ) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self.served.port, timeout=LIMIT_SECONDS)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode("utf-8", "replace")
        finally:
            connection.close()

    # What must hold at any time.

    def check(self) -> None:
        """Alive, quiet, and the honest lease is listed to everyone."""
        assert self.served.process.poll() is None, f"the server ended: {self.told()}"
        assert self.get("/healthz")[0] == 200
        for trusted in (False, True):
            text = self.listed(trusted)
            ids = [row["id"] for row in json.loads(text)["leases"]]
            assert self.lease in ids, f"the honest lease is not listed: {text[:500]}"
            self.check_secrets(text, trusted)
        status, text = self.get("/api/snapshot")
        assert status == 200, text[:500]
        assert len(json.loads(text)["devices"]) == DEVICES
        self.check_secrets(text, trusted=False)
        self.check_log()

    def listed(self, trusted: bool) -> str:
        """The leases; a server that had no time to read the book for seconds says so first."""
        texts = list[str]()

        def is_read() -> bool:
            status, text = self.get("/api/leases", trusted)
            assert status == 200, text[:500]
            texts.append(text)
            return not json.loads(text)["note"]

        wait_for(is_read)
        return texts[-1]

    def check_log(self) -> None:
        text = self.told()
        assert "Traceback" not in text, f"the server's log: {text[-4000:]}"
        assert len(text) < MOST_LOG_BYTES, f"the log has grown to {len(text)} bytes: {text[-500:]}"

    def check_secrets(self, text: str, trusted: bool) -> None:
        assert self.served.token not in text, "an answer holds the token"
        if not trusted:
            shown = [secret for secret in self.secrets if secret in text]
            assert not shown, f"shown without the token: {shown[0]!r} in {text[:300]}"

    def told(self) -> str:
        return self.log.read_text(errors="replace")


@contextmanager
def target(folder: Path, *options: str) -> Iterator[Target]:
    """Simulated devices; one of them is leased for as long as the fuzzing takes."""
    log, book = folder / "log", folder / "book"
    folder.mkdir(parents=True, exist_ok=True)
    to_a_file = ("sh", "-c", 'exec "$@" 2>"$0"', str(log))
    with serving(
        folder / "state", *options, simulate=DEVICES, wrapped=to_a_file, ANDON_LEASE_DIR=str(book)
    ) as served:
        found = Target(served, book, log, "", 0, ())
        lent = _lent(found)
        lease, fence = lent["id"], lent["fence"]
        fuzzed = Target(served, book, log, lease, fence, _secrets(found), {lease: fence})
        try:
            fuzzed.check()
            yield fuzzed
        finally:
            give_back(fuzzed)


def _lent(target: Target) -> dict[str, Any]:
    body = json.dumps({"gpus": 1, "seconds": LEASE_SECONDS, "command": COMMAND}).encode()
    headers = {**target.served.bearer, "Content-Type": "application/json"}
    status, text = target.ask("POST", "/api/leases", headers, body)
    assert status == 201, text
    lent: dict[str, Any] = json.loads(text)
    return lent


def _secrets(target: Target) -> tuple[str, ...]:
    """Every command line that runs here, and the lease's own."""
    _, text = target.get("/api/processes", trusted=True)
    lines = {process["command"] or "" for process in json.loads(text)["items"]}
    secrets = {line for line in lines if len(line) >= SHORTEST_SECRET} | {COMMAND}
    assert len(secrets) > 1, "the simulation has no command lines to keep"
    return tuple(sorted(secrets))


def give_back(target: Target, keep: str = "") -> None:
    """Every lease of this server has a process of its own, which must not outlive the test.

    Only those: a forged entry names any process as its holder, and to release it is to signal that.
    """
    if not set(target.lent) - {keep}:
        return
    end = time.monotonic() + 60.0
    while time.monotonic() < end:
        try:
            _, text = target.get("/api/leases", trusted=True)
            ours = set(target.lent) - {keep}
            rows = [row for row in json.loads(text)["leases"] if row["id"] in ours]
        except (OSError, HTTPException, ValueError, KeyError):
            return  # the server is gone; the fuzzing has failed already
        if not rows:
            for lease in ours:
                del target.lent[lease]
            return
        for row in rows:
            asked = f"/api/leases/{quote(row['id'], safe='')}?fence={row['fence']}"
            target.ask("DELETE", asked, target.served.bearer)
