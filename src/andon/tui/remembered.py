"""Stores what the user chose in top, for the next session."""

import json
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from andon.errors import AndonError
from andon.host.files import read_regular, replace_file
from andon.host.state.user_folder import open_state_folder, state_folder
from andon.tui.scene import SORT_NAMES
from andon.tui.state import INTERVALS, SPANS, TopState
from andon.tui.views.processes import COLUMN_NAMES

NAME = "top.json"
SCHEMA = "andon.top/1"
MOST_BYTES = 4096


def remembered(state: TopState) -> TopState:
    """Returns the state with the stored choices; an unreadable file changes nothing."""
    try:
        found = json.loads(read_regular(state_folder() / NAME, MOST_BYTES))
    except (OSError, ValueError):
        return state
    return with_choices(state, found) if isinstance(found, dict) else state


def with_choices(state: TopState, found: dict[str, Any]) -> TopState:
    """Returns the state with the choices that this version knows; others are ignored."""
    if found.get("schema") != SCHEMA:
        return state
    choice = state.processes
    if found.get("sort") in SORT_NAMES:
        choice = replace(choice, sort=found["sort"])
    hidden = found.get("hidden")
    if isinstance(hidden, list):
        choice = replace(choice, hidden=frozenset(n for n in COLUMN_NAMES if n in hidden))
    for name in ("reverse", "tree"):
        if isinstance(found.get(name), bool):
            choice = replace(choice, **{name: found[name]})
    state = replace(state, processes=choice)
    if isinstance(found.get("graphs"), bool):
        state = replace(state, graphs=found["graphs"])
    if found.get("span_seconds") in SPANS:
        state = replace(state, span_seconds=float(found["span_seconds"]))
    if found.get("interval_seconds") in INTERVALS:
        state = replace(state, interval_seconds=float(found["interval_seconds"]))
    return state


def choices_of(state: TopState) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "sort": state.processes.sort,
        "reverse": state.processes.reverse,
        "tree": state.processes.tree,
        "hidden": sorted(state.processes.hidden),
        "graphs": state.graphs,
        "span_seconds": state.span_seconds,
        "interval_seconds": state.interval_seconds,
    }


def without_options(state: TopState, initial: TopState, saved: TopState) -> TopState:
    """Returns what to store of a session: without values that came from an option and that no key
    has changed."""
    if state.interval_seconds == initial.interval_seconds:
        state = replace(state, interval_seconds=saved.interval_seconds)
    now, then, before = state.processes, initial.processes, saved.processes
    if (now.sort, now.reverse) == (then.sort, then.reverse):
        now = replace(now, sort=before.sort, reverse=before.reverse)
    return replace(state, processes=now)


def remember(state: TopState) -> None:
    """Saves the choices; a folder that cannot be written is no reason to fail."""
    with suppress(OSError, AndonError):
        replace_file(open_state_folder() / NAME, json.dumps(choices_of(state)).encode())
