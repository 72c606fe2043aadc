"""What a new run is called, and where its record goes."""

import os
import re
import secrets
import time
from collections.abc import Mapping
from pathlib import Path

from andon.host.processes.kin import started_ticks
from andon.host.state.user_folder import runs_folder as runs_folder
from andon.host.system import boot_id
from andon.runs.rules.ranks import RUN_VARIABLE, RankPlace, rank_place

LETTERS = "bcdfghjkmnpqrstvwxz"  # without vowels, they spell nothing
LONGEST_NAME = 200
MOST_TRIES = 100  # for a name of a record that is free


def new_id() -> str:
    """Eight letters."""
    return "".join(secrets.choice(LETTERS) for _ in range(8))


def parent_of(variables: Mapping[str, str]) -> str | None:
    """The run that started this process."""
    return variables.get(RUN_VARIABLE) or None


def place_of(variables: Mapping[str, str]) -> RankPlace:
    """Returns the place of this process among its ranks."""
    parent = os.getppid()
    started, boot = started_ticks(parent), boot_id()
    return rank_place(variables, f"{parent}.{started}.{(boot or '')[:8]}")


def record_path(folder: Path, name: str, at: float) -> Path:
    """`train.py_20251115T014107Z_3f2a.jsonl`: readable, and free now; runs of one name may begin in
    the same second."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name.rsplit("/", 1)[-1])[:60] or "run"
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
    for _ in range(MOST_TRIES):
        path = folder / f"{plain}_{stamp}_{os.urandom(2).hex()}.jsonl"
        if not os.path.lexists(path):
            break
    return path
