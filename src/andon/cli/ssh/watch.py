"""`andon watch` over several hosts: one connection each, that is made again when it is lost."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from andon.cli.live_screen import LiveScreen, is_capable
from andon.cli.node_answers import NodeAnswer, NodeTable, csv_with_name
from andon.cli.show.csv_table import DEVICES, device_rows
from andon.cli.show.watch import LiveTable
from andon.cli.sources import rulebook_of, settings_of
from andon.cli.terminal import Choices, Terminal
from andon.errors import AndonError, Invalid
from andon.model import wire
from andon.model.device import Snapshot
from andon.node.port import SnapshotSession
from andon.node.ssh import SshNode
from andon.node.ssh.client import TIMEOUT_SECONDS, SshHost
from andon.units import human_seconds

LEAST_LINES = 8  # of each host


class Watched:
    """One host: its latest snapshot, and why there is no newer one."""

    def __init__(
        self, name: str, node: SshNode, session: SnapshotSession, table: LiveTable
    ) -> None:
        self.name, self._node, self._session, self._table = name, node, session, table
        self.snapshot: Snapshot | None = None
        self.trouble: AndonError | None = None

    def poll(self) -> bool:
        """Takes the latest snapshot; returns whether it is a new one."""
        try:
            found = self._session.get()
        except AndonError as exc:
            self.trouble = exc
            return False
        self.trouble, self.snapshot = None, found or self.snapshot
        return found is not None

    def answer(self, width: int, height: int, now: float) -> NodeAnswer:
        """Returns its lines; for a silent host, with the age of its last answer."""
        if self.snapshot is None:
            return NodeAnswer(self.name, self.trouble)
        try:
            lamps = self._node.live.lamps(self.snapshot)
        except AndonError as exc:
            return NodeAnswer(self.name, exc)
        lines = [line.rstrip() for line in self._table.frame(self.snapshot, width, height, lamps)]
        if self.trouble is not None:
            age = human_seconds(max(0.0, now - self.snapshot.at))
            lines.append(f"no answer for {age}: {self.trouble.reason}")
        return NodeAnswer(self.name, None, "\n".join(lines))


def watch_hosts(choices: Choices, hosts: Sequence[str], given: dict[str, Any]) -> int:
    """Shows all hosts until Ctrl-C, or for --count samples."""
    if given["out"] is not None or given["devices"]:
        raise Invalid("--out and devices are for one host", hint="andon watch --ssh HOST")
    choices.interval_seconds = given["interval"]
    interval, terminal = settings_of(choices).interval_seconds, Terminal.of(choices)
    settings, book = settings_of(choices), rulebook_of(choices)
    seconds = choices.timeout or TIMEOUT_SECONDS
    nodes = [SshNode(SshHost(host, settings.ssh_andon, seconds), lambda: book) for host in hosts]
    with ExitStack() as stack, suppress(KeyboardInterrupt):
        live = terminal.live and given["form"] == "table" and is_capable()
        screen = stack.enter_context(LiveScreen()) if live and not given["lines"] else None
        watched = list[Watched]()
        for host, node in zip(hosts, nodes, strict=True):
            stack.callback(node.close)
            session = node.live.subscribe(interval, stays=screen is not None)
            watched.append(Watched(host, node, session, LiveTable(terminal.color, book)))
        show = _shown(given["form"], screen, terminal, hosts)
        left = given["count"]
        while left is None or left > 0:
            began = time.monotonic()
            fresh = [one for one in watched if one.poll()]
            show(watched, fresh)
            left = None if left is None else left - 1
            time.sleep(max(0.05, began + interval - time.monotonic()))
    return 0 if all(one.snapshot is not None for one in watched) else 1


Show = Callable[[Sequence[Watched], Sequence[Watched]], None]


def _shown(
    form: str,
    screen: LiveScreen | None,
    terminal: Terminal,
    hosts: Sequence[str],
) -> Show:
    """Returns the function that shows all hosts: on a screen, as lines, as JSON lines or as CSV."""
    if form == "jsonl":
        return lambda _, fresh: terminal.show_data("".join(map(_json_line, fresh)))
    if form == "csv":
        terminal.show_data(csv_with_name("host", DEVICES.header))
        return lambda _, fresh: terminal.show_data("".join(_csv_lines(fresh)))

    def draw(watched: Sequence[Watched], _: Sequence[Watched]) -> None:
        width, height = screen.size() if screen else (terminal.width, terminal.height)
        each = max(LEAST_LINES, (height - 1) // len(watched))
        lines = NodeTable(hosts, "text", terminal._replace(width=width, live=False))
        answers = [one.answer(lines.width, each, time.time()) for one in watched]
        shown = [line for answer in answers for line in lines.lines(answer)]
        if screen is not None:
            screen.draw(shown[: height - 1])
        else:
            terminal.show("".join(f"{line}\n" for line in shown))

    return draw


def _json_line(one: Watched) -> str:
    assert one.snapshot is not None
    return wire.dumps({"host": one.name, **wire.snapshot_to_json(one.snapshot)}) + "\n"


def _csv_lines(fresh: Sequence[Watched]) -> list[str]:
    rows = [(one.name, row) for one in fresh if one.snapshot for row in device_rows(one.snapshot)]
    return [csv_with_name(name, row) for name, row in rows]
