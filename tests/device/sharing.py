"""Leases with a real driver: memory attribution, refusals, network leases, squatters."""

import json
import os
import pwd
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tests.device.scenes import GIB, Scene, SkippedError
from tests.device.surfaces import COMMAND, run
from tests.support.homes import own_folders

PATIENCE_SECONDS = 60.0
RUNS = 7
NOBODY = 65534
XID = "ANDON_DEVICE_XID"  # the checks' own variable, which andon would report as an unknown setting
WORK = """
import os, time, torch
kept = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
print("started", torch.cuda.device_count(), os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
while True:
    kept.add_(1)
    torch.cuda.synchronize()
    time.sleep(0.01)
"""
HASTE = "[alerts]\nsquatter_seconds = 1\n"


@contextmanager
def book() -> Iterator[dict[str, str]]:
    """A separate book, configuration and state folder."""
    with tempfile.TemporaryDirectory(prefix="andon-leases-", dir="/tmp") as folder:
        config = Path(folder) / "andon.toml"
        config.write_text(HASTE, encoding="utf-8")
        yield {**own_folders(Path(folder)), "ANDON_CONFIG": str(config)}


def environment_of(more: dict[str, str]) -> dict[str, str]:
    """Ours with these."""
    return {name: value for name, value in os.environ.items() if name != XID} | more


@contextmanager
def working(command: list[str], env: dict[str, str], **more: Any) -> Iterator[str]:
    """A process that computes on the device; yields its first output."""
    try:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment_of(env),
            **more,
        )
    except PermissionError as exc:
        raise SkippedError(f"another user cannot start it: {exc}") from exc
    try:
        assert process.stdout is not None
        said = process.stdout.readline().strip()
        if said.startswith("andon: running on"):
            said = process.stdout.readline().strip()
        if not said.startswith("started"):
            rest = process.stdout.read()[-200:] if process.poll() is not None else ""
            raise SkippedError(f"cannot compute here: {said} {rest}".strip())
        yield said
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_SECONDS)


def soon(holds: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + PATIENCE_SECONDS
    while not (found := holds()):
        assert time.monotonic() < end, f"it did not happen: {what}"
        time.sleep(0.1)
    return found


def leases(env: dict[str, str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("leases", "--json", **env).stdout)["leases"]
    return found


def a_run_has_the_device_for_itself_and_its_memory_is_the_leases(scene: Scene) -> str:
    with book() as env:
        asked = [*COMMAND, "run", "--gpus", "1", "--", sys.executable, "-c", WORK]
        with working(asked, env) as said:
            _, count, mask = said.split()
            [row] = leases(env)
            assert (count, mask) == ("1", row["devices"][0]["uuid"]), said
            soon(lambda: leases(env)[0]["used_bytes"] >= GIB, "its memory beside its lease")
            used = leases(env)[0]["used_bytes"]
            devices = json.loads(run("status", "--json", **env).stdout)["devices"]
            marks = [p["lease"] for d in devices if d["uuid"] == mask for p in d["processes"]]
            assert marks == [row["id"]], marks
            refused = run("run", "--no-wait", "--devices", mask, "--", "true", **env)
            assert refused.returncode != 0
            assert f"lease {row['id']}" in refused.stderr, refused.stderr
        soon(lambda: not leases(env), "its end")
    return f"{used / GIB:.2f} GiB under lease {row['id']}, refused to others, released"


def a_process_without_a_lease_is_named_in_the_refusal(scene: Scene) -> str:
    with book() as env, working([sys.executable, "-c", WORK], env):
        refused = run("run", "--no-wait", "--devices", "0", "--", "true", **env)
        assert refused.returncode != 0
        assert "without a lease" in refused.stderr, refused.stderr
    return re.sub(r"\s+", " ", refused.stderr.strip())[-120:]


def run_adds_little_to_a_command(scene: Scene) -> str:
    with book() as env:
        walls = []
        for _ in range(RUNS):
            began = time.perf_counter()
            done = run("run", "--", "true", **env)
            walls.append(time.perf_counter() - began)
            assert done.returncode == 0, done.stderr
    return f"median {statistics.median(walls) * 1e3:.0f} ms of {RUNS}, best {min(walls) * 1e3:.0f}"


@contextmanager
def server(env: dict[str, str]) -> Iterator[Callable[..., Any]]:
    """A server; yields a function that sends requests with its token."""
    command = [*COMMAND, "serve", "--port", "0", "--no-history", "--quiet"]
    process = subprocess.Popen(
        command, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        found = re.search(r"https?://\S+:\d+", process.stdout.readline())
        assert found is not None
        token = Path(env["XDG_STATE_HOME"], "andon", "token").read_text(encoding="utf-8").strip()

        def ask(method: str, path: str, body: Any = None) -> Any:
            sent = None if body is None else json.dumps(body).encode()
            head = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            request = Request(f"{found[0]}{path}", sent, head, method=method)
            with urlopen(request, timeout=30) as answer:
                return json.loads(answer.read())

        yield ask
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_SECONDS)


def the_network_lends_renews_and_takes_back(scene: Scene) -> str:
    with book() as env, server(env) as ask:
        soon(lambda: ask("GET", "/api/health")["sampler"]["snapshots"] > 1, "the first samples")
        lent = ask("POST", "/api/leases", {"gpus": 1, "seconds": 600})
        uuid, fence = lent["devices"][0]["uuid"], lent["fence"]
        assert lent["environment"]["CUDA_VISIBLE_DEVICES"] == uuid
        soon(lambda: uuid in ask("GET", "/api/board")["holders"], "the holder on the board")
        more = {"seconds": 1200, "fence": fence}
        renewed = ask("POST", f"/api/leases/{lent['id']}/renew", more)
        assert renewed["until"] > lent["until"] + 500
        try:
            squatter = _squatter(env, ask)
        except SkippedError as skipped:
            squatter = str(skipped)
        assert ask("DELETE", f"/api/leases/{lent['id']}?fence={fence}")["released"]
        soon(lambda: not ask("GET", "/api/leases")["leases"], "its end")
    return f"lent, renewed, released; {squatter}"


def _squatter(env: dict[str, str], ask: Callable[..., Any]) -> str:
    """Another user computes on a leased device; returns the alert's message."""
    if os.geteuid() != 0:
        return "no other user on this machine"
    pwd.getpwuid(NOBODY)
    command = [sys.executable, "-c", WORK]
    with working(command, {**env, "HOME": "/tmp"}, user=NOBODY, cwd="/"):
        path = "/api/alerts?state=firing&rule=squatter"
        [alert] = soon(lambda: ask("GET", path)["alerts"], "the alert")
        message: str = alert["message"]
        assert "outside lease" in message, message
        return message
