"""Foreign documents, mutated: recordings and servers' answers, read through the command line.

Each round takes true documents, makes some of their nodes into something else, and lets a command
read them. Whatever they say ends in output or in one plain sentence: no traceback, and no hang.
`play(seed, seconds)` repeats the same rounds for the same seed.
"""

import contextlib
import copy
import io
import json
import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

from andon.cli.main import run

GOLDEN = Path(__file__).parents[1] / "golden"
LONGEST_SECONDS = 30.0  # of one command, on a machine that does ten other things
REPLAY_SHARE = 0.15  # a recording needs a reader process, which takes a while to start

ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 5, 255, 2**31, 2**32 - 1, 2**63, 2**64 - 1, 2**64, 10**30, 10**400,
    0.5, -0.0, 1e18, 1e300, 1e308, -1e308, float("inf"), float("-inf"), float("nan"), "", " ", "5",
    "ok", "x" * 300, "x" * 20_000, "\x00", "\x1b[31m\x9b", "\n\r\t", "\u202e", "\ud800", "💥" * 99,
    "GPU-1", [], {}, [None], [[]], ["x"], {"x": None}, {"": ""}, {"at": 1}, [1] * 50, [{}] * 3,
)  # fmt: skip

READING = (
    ("status",), ("status", "--json"), ("status", "--csv"), ("status", "-v"), ("why",),
    ("why", "--json"), ("watch", "-n", "1"), ("watch", "-n", "1", "--format", "csv"),
    ("alerts",), ("alerts", "--json"), ("alerts", "rules"), ("alerts", "rules", "--json"),
    ("alerts", "rules", "thermal"), ("alerts", "show", "thermal"), ("leases",),
    ("leases", "--json"), ("release", "k7"), ("lease", "extend", "k7", "--for", "1h"),
    ("alerts", "ack", "thermal"), ("alerts", "silence", "thermal", "1h"), ("alerts", "test"),
    ("history",), ("history", "--json"), ("history", "--csv"), ("history", "--who"),
    ("history", "--who", "--json"), ("history", "0"), ("history", "host"),
)  # fmt: skip
REPLAYING = (
    ("status",), ("status", "--json"), ("ps",), ("ps", "--json"), ("devices",),
    ("why", "--seconds", "0.2"), ("watch", "-n", "3", "-i", "0.05"), ("alerts",),
    ("alerts", "rules"), ("who",), ("leases",), ("free",),
)  # fmt: skip


def play(seed: int, seconds: float) -> None:
    """Rounds for so many seconds, at least one of each kind."""
    end, number = time.monotonic() + seconds, 0
    with _of_its_own() as folder, _server() as server:
        while time.monotonic() < end or number < 2:
            chance = random.Random(f"{seed}/documents/{number}")
            told = f"ANDON_FUZZ_SEED={seed}, documents, round {number}"
            if number == 1 or chance.random() < REPLAY_SHARE:
                replay_round(chance, folder, told)
            else:
                server_round(chance, server, told)
            number += 1


def server_round(chance: random.Random, server: "Server", told: str) -> None:
    """A server that says something else than it should, in one of its answers or in all."""
    command = chance.choice(READING)
    server.answers = {path: mutated(chance, said) for path, said in ANSWERS.items()}
    if chance.random() < 0.5:
        spoiled = chance.choice(list(ANSWERS))
        server.answers = {**copy.deepcopy(ANSWERS), spoiled: server.answers[spoiled]}
    call([*command, "--url", server.url], told, server.answers)


def replay_round(chance: random.Random, folder: Path, told: str) -> None:
    """A recording of which some look, the first one or a later, is not what it should be."""
    looks = [copy.deepcopy(SNAPSHOT) for _ in range(3)]
    for number, look in enumerate(looks):
        look["at"] += 0.1 * number
    place = chance.randrange(len(looks))
    looks[place] = mutated(chance, looks[place])
    path = folder / "look.jsonl"
    path.write_text("".join(_text(look) + "\n" for look in looks))
    call([*chance.choice(REPLAYING), "--replay", str(path)], told, looks[place])


def mutated(chance: random.Random, document: Any) -> Any:
    """The same with one to three of its nodes changed into something else, or taken away."""
    changed = copy.deepcopy(document)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        places = list(_places(changed))
        holder, key = chance.choice(places)
        if chance.random() < 0.1:
            del holder[key]
        elif chance.random() < 0.1 and isinstance(holder[key], list):
            holder[key] = holder[key] * 300
        else:
            holder[key] = copy.deepcopy(chance.choice(ODD))
        if not isinstance(changed, dict) or not changed:
            break
    return changed


def call(arguments: Sequence[str], told: str, document: Any) -> None:
    """One command in this process: it prints, or says in a sentence why not."""
    out, err, began = _Terminal(), _Terminal(), time.monotonic()
    where = f"{told}: andon {' '.join(arguments)}"
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(arguments)
    except BaseException as exc:
        raise AssertionError(f"{where}: {exc!r}\n{_text(document)[:4000]}") from exc
    words = out.getvalue() + err.getvalue()
    assert isinstance(code, int), where
    assert "Traceback" not in words, f"{where}:\n{words}\n{_text(document)[:4000]}"
    assert time.monotonic() - began < LONGEST_SECONDS, f"{where} took too long"
    if code not in (0, 1):
        assert err.getvalue().startswith(("andon: ", "andon\x1b")) or out.getvalue(), where


# What is true.


def _golden(name: str) -> Any:
    return json.loads((GOLDEN / name).read_text(encoding="utf-8"))


SNAPSHOT: dict[str, Any] = _golden("status.json")
_UUID = SNAPSHOT["devices"][0]["uuid"]
_LEASE = _golden("api/leases.json")["leases"][0]
ANSWERS: dict[str, Any] = {
    "/api/health": _golden("api/health.json"),
    "/api/snapshot": SNAPSHOT,
    "/api/snapshots": {"items": [SNAPSHOT, {**SNAPSHOT, "at": SNAPSHOT["at"] + 1}]},
    "/api/alerts": _golden("api/alerts.json"),
    "/api/alerts/": _golden("api/alerts.json")["alerts"][1],
    "/api/alerts/rules": _golden("api/alert-rules.json"),
    "/api/alerts/test": {
        "results": [{"notifier": "mail", "ok": True, "reason": None, "hint": None}], "note": None,
    },
    "/api/silences": _golden("api/alerts.json")["silences"][0],
    "/api/leases": _golden("api/leases.json"),
    "/api/leases/": _LEASE,
    "/api/history/devices": {
        "items": [{"uuid": _UUID, "index": 0, "vendor": "nvidia", "name": "NVIDIA H200"}],
    },
    "/api/devices/": {
        "buckets": [
            {"since": 1763170000.0 + n, "until": 1763170001.0 + n, "count": 1, "min": 1.0,
             "mean": 2.0, "max": 3.0}
            for n in range(4)
        ],
    },
    "/api/usage": {
        "items": [
            {"device": _UUID, "pid": 7, "started": 1763170000.0, "user": "bob", "name": "train",
             "first": 1763170001.0, "last": 1763170009.0, "peak_memory_bytes": 1 << 30}
        ],
    },
}  # fmt: skip
"""By path; one that ends in a slash answers for all below it."""


# Where it happens.


@dataclass
class Server:
    """Answers every request with what it was told to say, whatever the method."""

    url: str = ""
    answers: dict[str, Any] = field(default_factory=dict)

    def answer(self, path: str) -> bytes:
        plain = path.partition("?")[0]
        below = [p for p in self.answers if p.endswith("/") and plain.startswith(p)]
        found = self.answers.get(plain, self.answers[below[0]] if below else {})
        return _text(found).encode("utf-8", "surrogatepass")


@contextlib.contextmanager
def _server() -> Iterator[Server]:
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = server.answer(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_DELETE = do_GET  # noqa: N815 - the library's names

        def log_message(self, *_: Any) -> None:
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listener.serve_forever, daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{listener.server_address[1]}"
    try:
        yield server
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


@contextlib.contextmanager
def _of_its_own() -> Iterator[Path]:
    """Nothing of this machine's user, settings or leases is seen or touched."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        leases = folder / "leases"
        leases.mkdir()
        own = {
            "HOME": name, "XDG_STATE_HOME": name, "XDG_CONFIG_HOME": f"{name}/none",
            "ANDON_LEASE_DIR": str(leases), "COLUMNS": "120", "NO_COLOR": "1",
        }  # fmt: skip
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("ANDON_", "CUDA_"))}
        with mock.patch.dict(os.environ, {**kept, **own}, clear=True):
            yield folder


class _Terminal(io.StringIO):
    encoding = "utf-8"


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every node below the root: what holds it, and under which key."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(pairs):
        yield value, key
        if isinstance(item, (dict, list)):
            yield from _places(item)


def _text(value: Any) -> str:
    """As a hostile program writes it: with NaN, infinity and half surrogates."""
    return json.dumps(value)
