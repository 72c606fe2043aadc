"""What the tests of lending over the network share: a server over a book of its own."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from andon.leases.book.lease_book import Book
from tests.integration.serving import Answer, Served, serving
from tests.support.homes import own_folders


class Counter:
    """A server that lends, and who asks it with the token."""

    def __init__(self, served: Served, book: Book) -> None:
        self.served, self.book = served, book

    def ask(self, method: str, path: str, body: object = None, token: bool = True) -> Answer:
        sent = None if body is None else json.dumps(body)
        shown = self.served.bearer if token else {}
        return self.served.ask(path, method, sent, Content_Type="application/json", **shown)

    def lend(self, **asked: object) -> dict[str, Any]:
        answer = self.ask("POST", "/api/leases", asked)
        assert answer.status == 201, answer.body
        found: dict[str, Any] = answer.json()
        return found

    def renew(self, lease: dict[str, Any], **more: object) -> Answer:
        body = {"seconds": 900, "fence": lease["fence"]} | more
        return self.ask("POST", f"/api/leases/{lease['id']}/renew", body)

    def release(self, lease: dict[str, Any]) -> Answer:
        return self.ask("DELETE", f"/api/leases/{lease['id']}?fence={lease['fence']}")

    def listed(self, token: bool = True) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", "/api/leases", token=token).json()
        return found

    def held(self) -> list[str]:
        return [e.lease.id for e in self.book.entries() if e.locked and e.lease is not None]


@contextmanager
def lending(
    folder: Path,
    *options: str,
    simulate: int = 4,
    wrapped: Sequence[str] = (),
    python: str = sys.executable,
    **env: str,
) -> Iterator[Counter]:
    """`andon serve` with four simulated devices that are idle; its book is in the folder."""
    surroundings = {
        **own_folders(folder),
        "HOME": "/nonexistent",
        "ANDON_SIMULATE_SCENARIO": "idle",
        **env,
    }
    book = Book(own_folders(folder))
    with serving(
        folder / "state",
        "--no-history",
        *options,
        simulate=simulate,
        umask=-1,
        port=0,
        wrapped=wrapped,
        python=python,
        errors=subprocess.PIPE,
        **surroundings,
    ) as served:
        yield Counter(served, book)


def children(pid: int) -> dict[int, str]:
    """The state of every child of a process: Z is one that nobody has reaped."""
    found: dict[int, str] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            values = stat.read_text().rpartition(") ")[2].split()
            if int(values[1]) == pid:
                found[int(stat.parent.name)] = values[0]
    return found
