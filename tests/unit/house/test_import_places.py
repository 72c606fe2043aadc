"""Imports stand at the top of a module, unless something that starts often would load more."""

import json
import sys
from collections.abc import Iterator

from tests.support.import_graph import (
    GUARDED,
    INSIDE,
    TOP,
    TYPES,
    Import,
    circle,
    graph,
    imports,
    loaded_by,
    modules,
)
from tests.support.snapshots import GOLDEN

LATE = frozenset((
    "_winapi", "click", "click.shell_completion", "ctypes", "ctypes.util", "difflib", "fcntl",
    "grp", "hashlib", "http.client", "importlib", "importlib.metadata", "json", "logging",
    "msgspec.structs", "msvcrt", "pty", "pwd", "resource", "shlex", "shutil", "signal", "site",
    "socket", "struct", "subprocess", "tempfile", "termios", "tomllib", "tty", "unicodedata",
    "zoneinfo",
))  # fmt: skip
"""Of Python's own and the two libraries that are always there: slow to load, or not everywhere."""
ALWAYS = ("click", "msgspec")
LOCKS = frozenset(("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"))
"""A module that loads one of them cannot be imported on every system."""
BEGINNINGS = frozenset((
    "andon", "andon.cli.entry", "andon.drivers.reader", "andon.node.ssh.client", "andon.process",
    "andon.tui.opening",
))  # fmt: skip
"""They load in the order in which things are needed: what is drawn while a driver opens."""
WHEN_ASKED = frozenset((
    "andon.alerts.rules.rule_page", "andon.app.history", "andon.app.messages.jobs",
    "andon.app.servers.demo", "andon.app.servers.hub", "andon.app.uplink",
    "andon.cli.commands.setup.bundle", "andon.cli.commands.share.around",
    "andon.drivers.replay.recording", "andon.exporter.exports", "andon.fleet.rules.states",
    "andon.history.rules.intervals", "andon.history.rules.series", "andon.history.rules.tiers",
    "andon.host.processes.environment", "andon.host.processes.facts",
    "andon.host.processes.procfs", "andon.jobs.acts",
    "andon.jobs.file", "andon.jobs.rules.file", "andon.jobs.rules.model_file",
    "andon.jobs.rules.parameters", "andon.kill.ending", "andon.leases.book.rejoin",
    "andon.model.links", "andon.node.calls", "andon.node.port", "andon.node.server",
    "andon.node.sign_in",
    "andon.ports", "andon.runs.record", "andon.sampling.sampler",
    "andon.settings.alerts", "andon.settings.store_url", "andon.tui.views.details",
    "andon.web.app", "andon.web.fleet.reported",
))  # fmt: skip
"""What `serve`, `top` and the dispatcher hold in memory only once someone asks for it, and commands
load only where no server answers."""


def unexplained() -> Iterator[str]:
    """The imports in functions and for types alone that could stand at the top."""
    kept = json.loads((GOLDEN / "loaded.json").read_text())
    starts = [frozenset(one["modules"]) for one in kept.values()]
    starts.append(frozenset(json.loads((GOLDEN / "loaded_told.json").read_text())))
    edges = graph(TOP)
    for one in imports():
        if one.when != TOP and not _has_reason(one, edges, starts):
            yield f"{one.of} line {one.line}: {', '.join(one.targets)}"


def _has_reason(one: Import, edges: dict[str, set[str]], starts: list[frozenset[str]]) -> bool:
    if one.of in BEGINNINGS or one.of.startswith("andon.standalone"):
        return True
    if not {name.partition(".")[0] for name in one.targets} <= {"andon"}:
        return all(name in LATE or _is_of_an_extra(name) for name in one.targets)
    if WHEN_ASKED.intersection(one.targets):
        return True
    found = loaded_by(one.targets, edges)
    ours = found & modules()
    if one.of in ours or any(one.of in start and not ours <= start for start in starts):
        return True  # a circle, or more than a command loads now
    more = found - loaded_by([one.of], edges)
    return any(name in LOCKS or _is_of_an_extra(name) for name in more - modules())


def _is_of_an_extra(name: str) -> bool:
    room = name.partition(".")[0]
    return room not in sys.stdlib_module_names and room not in ALWAYS


def test_imports_stand_at_the_top_unless_a_start_would_pay_for_them() -> None:
    assert list(unexplained()) == []


def test_no_modules_import_each_other() -> None:
    edges = graph(TOP, TYPES, GUARDED, INSIDE)
    assert len(edges) > 800
    assert circle(edges) == []


def test_the_graph_sees_every_way_to_import() -> None:
    found = {one.when for one in imports()}
    assert found == {TOP, TYPES, GUARDED, INSIDE}
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": set()}) != []
    assert loaded_by(["a.b"], {"a": {"x"}, "x": {"y"}}) == {"a", "a.b", "x", "y"}
