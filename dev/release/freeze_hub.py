"""What a hub of a release leaves: its database, and the folders of the hub and of an agent."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.error import HTTPError

from dev.release import freezing
from dev.release.freezing import andon, asked, day, environment, served, until, with_gpus
from tests.support import postgres

PARTS = ("hub", "agent", "database")
DUMP = "database/hub.sql"
NODE = "far"


def place(name: str, **more: str) -> dict[str, str]:
    """The environment of the hub, or of its node."""
    folder = freezing.FOLDER / name
    own = {"XDG_STATE_HOME": str(folder), "ANDON_LEASE_DIR": str(freezing.FOLDER / f"{name}-book")}
    return environment(**own, ANDON_NODE=NODE if name == "agent" else name, **more)


def new_database(name: str) -> str:
    """The URL of an empty database of the PostgreSQL of this process."""
    postgres.server().sql(f"CREATE DATABASE {name}")
    return postgres.server().url(name)


@contextmanager
def hub(url: str, env: Mapping[str, str] | None = None) -> Iterator[str]:
    """The hub of a database."""
    with served({**place("hub"), **(env or {})}, "hub", "--store", url) as address:
        yield address


@contextmanager
def agent(address: str, **more: str) -> Iterator[None]:
    """A node that reports to a hub, with GPUs of the tests' own driver."""
    command = [sys.executable, "-P", "-m", "andon.cli", "agent", "--hub", address]
    with (freezing.FOLDER / "agent.log").open("w") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=freezing.FOLDER / "work",
            env={**freezing.code_path(), **place("agent"), **with_gpus(), **more},
        )  # fmt: skip
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(freezing.PATIENCE_SECONDS)


def token(name: str) -> str:
    return (freezing.FOLDER / name / "andon/token").read_text(encoding="utf-8").strip()


def leave() -> dict[str, Any]:
    """Lets a hub and an agent work; returns what the hub then says of its node, and what is in its
    history."""
    for name in PARTS:
        (freezing.FOLDER / name).mkdir()
    url = new_database("released")
    andon("seed", "--days", "1", "--devices", "1", "--store", url, env=place("hub"))
    with hub(url) as address:
        owner = token("hub")
        env = place("hub", ANDON_TOKEN=owner)
        line = andon("nodes", "add", NODE, "--url", address, env=env)
        with agent(address, ANDON_HUB_TOKEN=line.split()[0].partition("=")[2]):
            until("an alert of the node", lambda: alerts(address, owner))
        until("the node is silent", lambda: state(address, owner) == "silent")
        found = node(address, owner)
    dump(url)
    at = time.time()
    return {"hub": found, "database": {"at": at, "history": history(url, at)}}


def alerts(address: str, owner: str) -> list[str]:
    """The alerts about heat of the node that a hub knows; none before its first report."""
    try:
        found = asked(address, f"/api/nodes/{NODE}/alerts?rule=thermal", owner)["alerts"]
    except HTTPError:
        return []
    return sorted(one["id"] for one in found if one["state"] == "firing")


def state(address: str, owner: str) -> str:
    return str(node(address, owner)["state"])


def node(address: str, owner: str) -> dict[str, Any]:
    """The node as its hub lists it, without how long it has been silent."""
    found = asked(address, "/api/nodes", owner)["nodes"]
    one = next(dict(one) for one in found if one["name"] == NODE)
    return {name: value for name, value in one.items() if name not in {"age_seconds", "reason"}}


def history(url: str, at: float, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What is in the history of a database."""
    env = {**place("hub", ANDON_HISTORY=url), **(env or {})}
    return dict(json.loads(andon("history", "SIM-", *day(at), "-n", "12", "--json", env=env)))


def dump(url: str) -> None:
    """Writes the database as SQL."""
    program = postgres.binary("pg_dump")
    done = subprocess.run([program, "--no-owner", url], capture_output=True, check=True)
    (freezing.FOLDER / DUMP).write_bytes(done.stdout)


def restore(url: str) -> None:
    """Fills a database from what was dumped."""
    command = ["psql", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(freezing.FOLDER / DUMP), url]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=dict(os.environ))
