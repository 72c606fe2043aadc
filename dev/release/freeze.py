"""`make freeze`: what this release leaves on a disk, and what it reads there again.

It writes tests/fixtures/released/VERSION: `left.tar.xz` has a state folder with history, alerts,
runs, jobs, sessions and what waits to be sent, a lease book and settings, made by this release's
own commands; `seen.json` is what its commands then say of them. Later releases must say the same
(tests/integration/release/test_upgrades.py). The clock of the test stands at `at`.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dev.release.packages import ROOT, version
from tests.standin import StandIn, build

from andon.host.spool import read_spool

FOLDER = Path("/tmp/andon-released")
"""Where it is made and unpacked: the files name their folders."""
FIXTURES = ROOT / "tests/fixtures/released"
MOST_BYTES = 300_000
PATIENCE_SECONDS = 120.0
PARTS = ("state", "book", "config", "work")
SETTINGS = """\
[node]
name = "frozen"
[alerts]
thermal_celsius = 20
[[alerts.override]]
device = "0"
thermal_celsius = 21
[[alerts.notifier]]
name = "unreachable"
kind = "command"
command = "/bin/false"
[[export]]
name = "away"
kind = "otlp"
url = "http://127.0.0.1:9/v1/metrics"
interval = "10s"
[history]
raw_days = 0.25
"""
LAB = ("--simulate", "2")
VOLATILE = {
    "asked_at", "at", "booted_at", "elapsed_seconds", "memory_bytes", "now", "pid", "size_bytes",
    "uptime_seconds", "waited_seconds",
}  # fmt: skip
"""What depends on when it is asked."""


def environment(**more: str) -> dict[str, str]:
    """No variable of the machine that freezes: a job keeps its environment."""
    homes = {"HOME": "work", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config"}
    own = {name: str(FOLDER / place) for name, place in homes.items()}
    fixed = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TZ": "UTC", "ANDON_PORT": "9"}
    return {**own, **fixed, "ANDON_LEASE_DIR": str(FOLDER / "book"), **more}


def started(
    *words: str, env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """A command of andon in FOLDER."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "andon.cli", *words], capture_output=True, text=True,
        cwd=FOLDER / "work", env={**code_path(), **(env or environment())},
        timeout=PATIENCE_SECONDS,
    )  # fmt: skip


def andon(*words: str, env: Mapping[str, str] | None = None, code: int | None = 0) -> str:
    """What a command prints that ends with this code."""
    done = started(*words, env=env)
    if code is not None and done.returncode != code:
        raise SystemExit(f"andon {' '.join(words)}: {done.returncode} {done.stdout}{done.stderr}")
    return done.stdout


def code_path() -> dict[str, str]:
    """Nothing: it is the andon of this environment. A test names another's folder."""
    named = os.environ.get("ANDON_UPGRADED")
    return {"PYTHONPATH": named} if named else {}


def until(what: str, is_so: Callable[[], object]) -> None:
    ends = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > ends:
            raise SystemExit(f"{what}: not within {PATIENCE_SECONDS:g} s")
        time.sleep(0.2)


def leave() -> dict[str, Any]:
    """Lets this release do what it does for people, in FOLDER; returns the key of a session, which
    alerts there are, and how much waits to be sent."""
    (FOLDER / "config/andon").mkdir(parents=True)
    (FOLDER / "config/andon/andon.toml").write_text(SETTINGS, encoding="utf-8")
    (FOLDER / "config/andon/andon.toml").chmod(0o600)
    (FOLDER / "work").mkdir()
    andon("seed", "--days", "1", "--devices", "1")
    andon("run", *LAB, "-q", "--name", "first", "--", "sh", "-c", "echo on the GPU")
    andon("run", *LAB, "-q", "--name", "failing", "--", "sh", "-c", "exit 3", code=3)
    andon("submit", *LAB, "--name", "good", "--", "sh", "-c", "echo of a job")
    andon("submit", *LAB, "--name", "bad", "--", "sh", "-c", "echo before >&2; exit 5")
    andon("jobs", "wait", "1", "2", code=None)
    andon("jobs", "pause")
    andon("submit", *LAB, "--name", "later", "--", "true")
    andon("reserve", *LAB, "--gpus", "1", "--from", "tomorrow 8:00", "--for", "2h", code=None)
    andon("cordon", *LAB, "1", "--reason", "its fan is replaced")
    with served(with_gpus()) as address:
        link = andon("open", "--print", "--url", address).strip()
        secret = asked(address, "/api/session", code=link.rpartition("code=")[2])["secret"]
        until("an alert", lambda: firing(address, secret))
        until("a session", lambda: list(FOLDER.glob("state/**/sessions.json")))
        until("what waits to be sent", lambda: list(FOLDER.glob("state/**/*.spool")))
        alerts = firing(address, secret)
    return {"secret": secret, "alerts": alerts, "spooled": spooled()}


def firing(address: str, secret: str) -> dict[str, float]:
    """The alerts about heat that a server has notified, by their ids, and since when."""
    found = asked(address, "/api/alerts?rule=thermal", secret)["alerts"]
    return {one["id"]: one["since"] for one in found if one["state"] == "firing"}


def spooled() -> int:
    """How many items wait to be sent."""
    (marks,) = FOLDER.glob("state/**/exports/otlp-away/marks")
    return read_spool(marks.parent).waiting


def asked(address: str, path: str, secret: str = "", **body: str) -> Any:
    """What a server answers, by REST."""
    headers = {"Content-Type": "application/json", "Origin": address}
    if secret:
        headers["Authorization"] = f"Bearer {secret}"
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(address + path, data, headers)
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
        return json.load(answer)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/api/health"):
            return True
    except OSError:
        return False


def with_gpus() -> dict[str, str]:
    """An environment with two GPUs of the tests' own driver: what is simulated is not kept."""
    (FOLDER / "driver").mkdir(exist_ok=True)
    node = StandIn(FOLDER / "driver")
    node.write(StandIn.devices(2))
    library = build(FOLDER / "driver")
    return {"STANDIN_FOLDER": str(node.folder), "LD_LIBRARY_PATH": str(library)}


@contextmanager
def served(env: Mapping[str, str] | None = None) -> Iterator[str]:
    """A server of what lies in FOLDER."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = "http://127.0.0.1:{1}".format(*free.getsockname())
    port = address.rpartition(":")[2]
    command = [sys.executable, "-P", "-m", "andon.cli", "serve", "--port", port]
    log = FOLDER / "serve.log"
    with log.open("w") as file:
        server = subprocess.Popen(
            command, stdout=file, stderr=file, cwd=FOLDER / "work",
            env={**code_path(), **environment(), **(env or {})},
        )  # fmt: skip
    try:
        until("a server", lambda: server.poll() is not None or _answers(address))
        if server.poll() is not None:
            raise SystemExit(f"andon serve: {log.read_text()}")
        yield address
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(PATIENCE_SECONDS)


def seen(at: float, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What commands say of what lies in FOLDER, without what depends on when they are asked."""
    since, until_ = (datetime.fromtimestamp(at - ago, UTC).isoformat() for ago in (86400, 3600))
    times = ("--since", since, "--until", until_)
    documents = {
        "history": ("history", "SIM-", *times, "-n", "12", "--json"),
        "who": ("history", "SIM-", "--who", *times, "--json"),
        "runs": ("runs", "--json"),
        "jobs": ("jobs", "--json"),
        "reservations": ("reservations", "--json"),
        "cordons": ("leases", *LAB, "--json"),
        "settings": ("config", "show", "--json"),
    }
    texts = {"log of 1": ("logs", "1"), "log of 2": ("logs", "2")}
    found = {name: json.loads(andon(*words, env=env)) for name, words in documents.items()}
    found["cordons"] = found["cordons"]["cordons"]
    named = found["settings"].pop("settings")
    found["settings"]["of the file"] = {
        row["key"]: row["value"] for row in named.values() if row["origin"] != "default"
    }
    said = {name: andon(*words, env=env, code=None) for name, words in texts.items()}
    return {name: plain(value) for name, value in found.items()} | said


def plain(value: Any) -> Any:
    """A value without what is volatile."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items() if name not in VOLATILE}
    return [plain(one) for one in value] if isinstance(value, list) else value


def pack(target: Path) -> None:
    """The files that lie in FOLDER; no socket, and no word of where they were made."""
    for path in (path for part in PARTS for path in (FOLDER / part).rglob("*")):
        if path.is_file() and str(ROOT).encode() in path.read_bytes():
            raise SystemExit(f"{path} has {ROOT}")
    with tarfile.open(target, "w:xz", preset=9) as opened:
        for part in PARTS:
            opened.add(FOLDER / part, part, filter=_kept)


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    named = Path(entry.name).name
    is_left = entry.isdir() or entry.isfile()
    return entry if is_left and named != "serve.log" else None


def main(arguments: list[str]) -> int:
    if FOLDER.exists():
        raise SystemExit(f"{FOLDER} is in the way: another freeze or test uses it")
    target = Path(arguments[0]) if arguments else FIXTURES / version()
    FOLDER.mkdir(mode=0o700)
    try:
        left = leave()
        at = time.time()
        (node,) = FOLDER.glob("state/andon/nodes/*")
        facts = {"version": version(), "at": at, "node": node.name, **left, "seen": seen(at)}
        target.mkdir(parents=True, exist_ok=True)
        pack(target / "left.tar.xz")
    finally:
        shutil.rmtree(FOLDER)
    (target / "seen.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    size = sum(path.stat().st_size for path in target.iterdir())
    if size > MOST_BYTES:
        raise SystemExit(f"{target}: {size:,} bytes, which is above {MOST_BYTES:,}")
    print(f"{target.relative_to(ROOT) if target.is_relative_to(ROOT) else target}: {size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
