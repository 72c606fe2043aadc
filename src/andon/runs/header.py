"""The first line of a record: what the run is, where it runs, and what it is part of."""

import os
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from andon.host.machine_id import boot_id
from andon.host.processes.kin import pid_scope, started_ticks
from andon.host.users import user_name
from andon.model.device import Snapshot
from andon.model.run.record import RunBegin, RunKind
from andon.runs.rules.ranks import RUN_VARIABLE, RankPlace, rank_place
from andon.runs.rules.sampled import run_devices
from andon.units import valid_text

# What a new run is called, and where its record goes.

LETTERS = "bcdfghjkmnpqrstvwxz"  # no vowels, so that ids spell no words
LONGEST_NAME = 200
MOST_TRIES = 100  # for a name of a record that is free


def new_id() -> str:
    """Returns a new id of eight letters."""
    return "".join(secrets.choice(LETTERS) for _ in range(8))


def place_of(variables: Mapping[str, str]) -> RankPlace:
    """Returns the place of this process among its ranks."""
    parent = os.getppid()
    started, boot = started_ticks(parent), boot_id()
    return rank_place(variables, f"{parent}.{started}.{(boot or '')[:8]}")


def record_path(folder: Path, name: str, at: float) -> Path:
    """Returns `train.py_20251115T014107Z_3f2a.jsonl`: readable, and unused; runs of one name may
    begin in the same second."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name.rsplit("/", 1)[-1])[:60] or "run"
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
    for _ in range(MOST_TRIES):
        path = folder / f"{plain}_{stamp}_{os.urandom(2).hex()}.jsonl"
        if not os.path.lexists(path):
            break
    return path


def new_run(
    kind: RunKind,
    name: str,
    snapshot: Snapshot,
    uuids: Iterable[str],
    variables: Mapping[str, str],
    **more: Any,
) -> RunBegin:
    """Returns a new run of this process on these devices; `more` are further fields, which also
    replace those that are set here."""
    place, pid = place_of(variables), os.getpid()
    if place.world_size is not None:
        more["world_size"] = place.world_size
    known = {
        "at": time.time(),
        "id": new_id(),
        "pid": pid,
        "started": started_ticks(pid),
        "working_directory": _folder(),
        "parent": variables.get(RUN_VARIABLE) or None,
        "group": place.group,
        "rank": place.rank,
    }
    return RunBegin(
        name=valid_text(name[:LONGEST_NAME]) or "run",
        kind=kind,
        node=snapshot.node,
        user=user_name(os.getuid()),
        boot=boot_id(),
        devices=run_devices(snapshot, uuids),
        simulated=snapshot.simulated,
        pid_namespace=pid_scope().pid_namespace,
        **{**known, **more},
    )


def _folder() -> str | None:
    try:
        return valid_text(os.getcwd())  # noqa: PTH109 - only shown
    except OSError:  # it has been removed
        return None
