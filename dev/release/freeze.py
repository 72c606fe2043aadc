"""`make freeze`: what this release leaves on a disk, and what it reads there again.

It writes tests/fixtures/released/VERSION: `left.tar.xz` has a state folder with history, alerts,
notes, runs, jobs, checks, probes, sessions and what waits to be sent, a lease book with a lease,
settings, and a hub's database with the folders of the hub and an agent, made by this release's own
commands; `seen.json` is what its commands then say of them. Later releases must say the same
(tests/integration/release/test_upgrades.py). The clock of the test stands at `at`.
"""

import json
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dev.release import freeze_hub, freezing
from dev.release.freezing import LAB, andon, asked, day, environment, served, until, with_gpus
from dev.release.packages import ROOT, version

from andon.host.spool import read_spool

FIXTURES = ROOT / "tests/fixtures/released"
MOST_BYTES = 450_000
PARTS = ("state", "book", "config", "work", *freeze_hub.PARTS)
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
LOGGING = """\
import andon
with andon.run("curve") as run:
    for step in range(40):
        run.log(step=step, loss=1 / (step + 1))
"""
VOLATILE = {
    "asked_at", "at", "booted_at", "elapsed_seconds", "memory_bytes", "now", "pid", "size_bytes",
    "uptime_seconds", "waited_seconds",
}  # fmt: skip
"""What depends on when it is asked."""
LEASE = ("id", "user", "state", "kind", "devices", "since", "until", "command", "fence")


def leave(work: int) -> dict[str, Any]:
    """Lets this release do what it does for people, one of whom holds a GPU for the process `work`;
    returns the key of a session, which alerts
    there are, how much waits to be sent, and what the hub says."""
    (freezing.FOLDER / "config/andon").mkdir(parents=True)
    (freezing.FOLDER / "config/andon/andon.toml").write_text(SETTINGS, encoding="utf-8")
    (freezing.FOLDER / "config/andon/andon.toml").chmod(0o600)
    (freezing.FOLDER / "work").mkdir()
    andon("seed", "--days", "1", "--devices", "1")
    andon("run", *LAB, "-q", "--name", "first", "--", "sh", "-c", "echo on the GPU")
    andon("run", *LAB, "-q", "--name", "failing", "--", "sh", "-c", "exit 3", code=3)
    _program()
    andon("runs", "pin", "first")
    andon("runs", "note", "first", "the first of all")
    andon("runs", "tag", "failing", "again")
    andon("runs", "baseline", "set", "usual", "first")
    andon("probe", *LAB, "-q", "--max", "2", "--name", "sizes", "--", "true", "{n}")
    andon("submit", *LAB, "--name", "good", "--", "sh", "-c", "echo of a job")
    andon("submit", *LAB, "--name", "bad", "--", "sh", "-c", "echo before >&2; exit 5")
    andon("jobs", "wait", "1", "2", code=None)
    andon("jobs", "pause")
    andon("submit", *LAB, "--name", "later", "--", "true")
    andon("reserve", *LAB, "--gpus", "1", "--from", "tomorrow 8:00", "--for", "2h", code=None)
    andon("cordon", *LAB, "1", "--reason", "its fan is replaced")
    idle = environment(ANDON_SIMULATE_SCENARIO="idle")
    andon("lease", *LAB, "-d", "0", "--around", str(work), env=idle)
    andon("check", "--quick", env={**environment(), **with_gpus()})
    with served(with_gpus()) as address:
        andon("history", "--url", address, "--note", "moved to another rack")
        link = andon("open", "--print", "--url", address).strip()
        secret = asked(address, "/api/session", code=link.rpartition("code=")[2])["secret"]
        until("an alert", lambda: firing(address, secret))
        until("a session", lambda: list(freezing.FOLDER.glob("state/**/sessions.json")))
        until("what waits to be sent", lambda: list(freezing.FOLDER.glob("state/**/*.spool")))
        alerts = firing(address, secret)
    return {"secret": secret, "alerts": alerts, "spooled": spooled(), **freeze_hub.leave()}


def _program() -> None:
    """A run of a program that logs a curve."""
    (freezing.FOLDER / "work/training.py").write_text(LOGGING, encoding="utf-8")
    (freezing.FOLDER / "python").symlink_to(sys.executable)  # its path is in the record
    env = environment(PYTHONPATH=f"{ROOT / 'src'}:{sysconfig.get_path('purelib')}")
    andon("run", *LAB, "-q", "--", str(freezing.FOLDER / "python"), "-P", "training.py", env=env)


def firing(address: str, secret: str) -> dict[str, float]:
    """The alerts about heat that a server has notified, by their ids, and since when."""
    found = asked(address, "/api/alerts?rule=thermal", secret)["alerts"]
    return {one["id"]: one["since"] for one in found if one["state"] == "firing"}


def spooled() -> int:
    """How many items wait to be sent."""
    (marks,) = freezing.FOLDER.glob("state/**/exports/otlp-away/marks")
    return read_spool(marks.parent).waiting


def seen(at: float, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What commands say of what lies in `freezing.FOLDER`, without what depends on the time."""
    documents = {
        "history": ("history", "SIM-", *day(at), "-n", "12", "--json"),
        "who": ("history", "SIM-", "--who", *day(at), "--json"),
        "notes": ("history", "host", "-m", "load", *day(at)[:2], "--json"),
        "runs": ("runs", "--json"),
        "curve": ("runs", "show", "curve", "--json"),
        "baselines": ("runs", "baseline", "--json"),
        "probes": ("probes", "--json"),
        "checks": ("checks", "--json"),
        "jobs": ("jobs", "--json"),
        "reservations": ("reservations", "--json"),
        "cordons": ("leases", *LAB, "--json"),
        "settings": ("config", "show", "--json"),
    }
    texts = {"log of 1": ("logs", "1"), "log of 2": ("logs", "2")}
    found = {name: json.loads(andon(*words, env=env)) for name, words in documents.items()}
    found["notes"] = found["notes"]["notes"]
    found["leases"] = [{name: one[name] for name in LEASE} for one in found["cordons"]["leases"]]
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
    """The files that lie in `freezing.FOLDER`; no socket, and no word of where they were made."""
    for path in (path for part in PARTS for path in (freezing.FOLDER / part).rglob("*")):
        if path.is_file() and str(ROOT).encode() in path.read_bytes():
            raise SystemExit(f"{path} has {ROOT}")
    with tarfile.open(target, "w:xz", preset=9) as opened:
        for part in PARTS:
            opened.add(freezing.FOLDER / part, part, filter=_kept)


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    named = Path(entry.name).name
    is_left = entry.isdir() or entry.isfile()
    return entry if is_left and named != "serve.log" else None


def main(arguments: list[str]) -> int:
    if freezing.FOLDER.exists():
        raise SystemExit(f"{freezing.FOLDER} is in the way: another freeze or test uses it")
    target = Path(arguments[0]) if arguments else FIXTURES / version()
    freezing.FOLDER.mkdir(mode=0o700)
    work = subprocess.Popen(("sleep", "infinity"))  # what a lease is held for
    try:
        left = leave(work.pid)
        at = time.time()
        (node,) = freezing.FOLDER.glob("state/andon/nodes/*")
        facts = {"version": version(), "at": at, "node": node.name, **left, "seen": seen(at)}
        target.mkdir(parents=True, exist_ok=True)
        pack(target / "left.tar.xz")
    finally:
        work.kill()
        work.wait()
        shutil.rmtree(freezing.FOLDER)
    (target / "seen.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    size = sum(path.stat().st_size for path in target.iterdir())
    if size > MOST_BYTES:
        raise SystemExit(f"{target}: {size:,} bytes, which is above {MOST_BYTES:,}")
    print(f"{target.relative_to(ROOT) if target.is_relative_to(ROOT) else target}: {size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
