"""The first line of a record: what the run is, where it runs, and what it is part of."""

import os
import time
from collections.abc import Iterable, Mapping
from typing import Any

from andon.host.processes.kin import here, started_ticks, user_name
from andon.host.system import boot_id
from andon.model.device import Snapshot
from andon.model.run.record import RunBegin, RunKind
from andon.runs.identity import LONGEST_NAME, new_id, parent_of, place_of
from andon.runs.rules.sampled import run_devices


def new_run(
    kind: RunKind,
    name: str,
    snapshot: Snapshot,
    uuids: Iterable[str],
    variables: Mapping[str, str],
    **more: Any,
) -> RunBegin:
    """A run of this process on these devices, from now on; `more` is what only its maker knows."""
    place, pid = place_of(variables), os.getpid()
    part = {"parent": parent_of(variables), "group": place.group, "rank": place.rank}
    if place.world_size is not None:
        part["world_size"] = place.world_size
    return RunBegin(
        at=time.time(),
        id=new_id(),
        name=_text(name[:LONGEST_NAME]) or "run",
        kind=kind,
        node=snapshot.node,
        user=user_name(os.getuid()),
        pid=pid,
        boot=boot_id(),
        started=started_ticks(pid),
        devices=run_devices(snapshot, uuids),
        simulated=snapshot.simulated,
        working_directory=_folder(),
        pid_namespace=here().pid_namespace,
        **{**more, **part},
    )


def _folder() -> str | None:
    try:
        return _text(os.getcwd())  # noqa: PTH109 - only shown
    except OSError:  # it has been removed
        return None


def _text(word: str) -> str:
    """The name of a file may have bytes that are no text."""
    return word.encode(errors="replace").decode()
