"""Runs andon in the folder that `make freeze` packs, and where a test unpacks it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.standin import StandIn, build
from tests.standin.cuda import StandInCuda, build_cuda

FOLDER = Path("/tmp/andon-released")
"""Where it is made and unpacked: the files name their folders."""
PATIENCE_SECONDS = 120.0
LAB = ("--simulate", "2")


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


def day(at: float) -> tuple[str, ...]:
    """Options of a history that is over: the day before a time, without its last hour."""
    since, ends = (datetime.fromtimestamp(at - ago, UTC).isoformat() for ago in (86400, 3600))
    return ("--since", since, "--until", ends)


def until(what: str, is_so: Callable[[], object]) -> None:
    ends = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > ends:
            raise SystemExit(f"{what}: not within {PATIENCE_SECONDS:g} s")
        time.sleep(0.2)


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
    """An environment with two GPUs of the tests' own drivers: what is simulated is not kept."""
    folder = FOLDER / "driver"
    folder.mkdir(exist_ok=True)
    node = StandIn(folder)
    node.write(StandIn.devices(2))
    StandInCuda(node)
    libraries = f"{build(folder)}:{build_cuda(folder)}"
    return {"STANDIN_FOLDER": str(folder), "LD_LIBRARY_PATH": libraries}


@contextmanager
def served(env: Mapping[str, str] | None = None, *words: str) -> Iterator[str]:
    """A server of what lies in FOLDER; `andon serve` without other words."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = "http://127.0.0.1:{1}".format(*free.getsockname())
    port = address.rpartition(":")[2]
    command = [sys.executable, "-P", "-m", "andon.cli", *(words or ["serve"]), "--port", port]
    log = FOLDER / "serve.log"
    with log.open("w") as file:
        server = subprocess.Popen(
            command, stdout=file, stderr=file, cwd=FOLDER / "work",
            env={**code_path(), **environment(), **(env or {})},
        )  # fmt: skip
    try:
        until("a server", lambda: server.poll() is not None or _answers(address))
        if server.poll() is not None:
            raise SystemExit(f"{command}: {log.read_text()}")
        yield address
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(PATIENCE_SECONDS)
