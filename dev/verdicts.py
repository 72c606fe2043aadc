"""Records what every condition says of generated nodes, situations and timelines, to compare two
versions of andon: `python -m dev.verdicts nodes FILE`, then, with each version,
`python -m dev.verdicts record FILE OUT`, then `diff`.

The nodes are generated once and read from the file by both versions, so that a strategy that
changed between them changes nothing.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from hypothesis import Phase, given, settings
from tests.situations.table import SITUATIONS
from tests.support.generated_nodes import nodes
from tests.timelines.grammar import Timeline, timelines
from tests.timelines.playing import Player

from andon.alerts.rules.alerts_from_sample import alerts_from_sample
from andon.alerts.rules.commands import current
from andon.alerts.rules.lamps import board
from andon.alerts.rules.lamps_from_sample import lamps_from_sample
from andon.alerts.rules.rule_page import RuleContext, rule_page
from andon.alerts.rules.state import EMPTY, StepResult
from andon.alerts.rules.state_machine import step
from andon.explain.conditions.catalogue import BY_NAME
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.observation import Moment, Observation
from andon.model import wire
from andon.model.alert import Alert
from andon.model.codec import document, to_json
from andon.model.device import Snapshot
from andon.model.wire_in import snapshot_from_json
from andon.web.answers import payloads
from andon.web.answers.alert_payloads import shown_board

MOST = 1000
Node = Sequence[Snapshot]


def generated() -> list[Node]:
    """Returns the same nodes whenever it is asked with the same strategy."""
    found: list[Node] = []

    @settings(max_examples=MOST, derandomize=True, database=None, deadline=None,
              phases=[Phase.generate])  # fmt: skip
    @given(nodes())
    def take(node: list[Snapshot]) -> None:
        found.append(node)

    take()
    return found


def write_nodes(path: Path) -> None:
    shaped = ({"node": [wire.snapshot_to_json(one) for one in node]} for node in generated())
    lines = map(wire.struct_text, shaped)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_nodes(path: Path) -> list[Node]:
    lines = path.read_text(encoding="utf-8").splitlines()
    read = (wire.loads(line, wire.ANSWER)["node"] for line in lines)
    return [[snapshot_from_json(one) for one in node] for node in read]


def of_node(name: str, node: Node) -> Iterator[str]:
    """Yields the alerts, lamps, board tile and reasons of each device at the node's last moment."""
    book, latest = Rulebook(), node[-1]
    alerts = _watched(node, book)
    for alert in alerts:
        yield _line(name, "alert", _stable(alert))
    for alert in alerts_from_sample(latest, book):
        yield _line(name, "stands", _stable(alert))
    for lamp in lamps_from_sample(latest, book):
        yield _line(name, "lamp", to_json(lamp))
    shown = board(latest, alerts)
    yield _line(name, "board", document(shown_board(shown, latest.node, alerts=alerts)))
    for status in latest.devices:
        reasons = payloads.why(node, status.device.uuid, book, shown.devices)
        yield _line(name, "why", reasons)


def _watched(node: Node, book: Rulebook) -> list[Alert]:
    """Returns the alerts after all snapshots, as a server would have judged them."""
    state = EMPTY
    for snapshot in node:
        seen = Observation(snapshot, snapshot.events)
        state = step(state, seen, Moment(snapshot.at, snapshot.at - node[0].at), book).state
    return list(current(state))


def _stable(alert: Alert) -> wire.Json:
    """Returns an alert without its number, which is made of the clock."""
    return {**to_json(alert), "id": alert.id.partition("#")[0]}


def of_timeline(timeline: Timeline) -> Iterator[str]:
    """Yields every alert and notice of a timeline with its text, in the order they came."""
    player = Recorded(timeline, hurry=True)
    player.play()
    yield from player.lines


class Recorded(Player):
    """A player that keeps what the state machine says at each look."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.lines: list[str] = []

    def _take(self, outcome: StepResult) -> None:
        for alert in outcome.changed:
            self.lines.append(_line(self.timeline.name, "changed", _stable(alert)))
        for notice in outcome.notices:
            self.lines.append(_line(self.timeline.name, str(notice.kind), _stable(notice.alert)))
        super()._take(outcome)


def rules() -> Iterator[str]:
    """Yields every condition's page, which has its Prometheus queries."""
    for name in sorted(BY_NAME):
        yield _line(name, "rule", document(rule_page(BY_NAME[name], RuleContext(Rulebook(), ()))))


def _line(name: str, what: str, value: object) -> str:
    return f"{name} {what} {wire.struct_text(value)}"


def record(path: Path, out: Path) -> None:
    lines = list(rules())
    for number, node in enumerate(read_nodes(path)):
        lines += of_node(f"node {number}", node)
    for situation in SITUATIONS:
        lines += of_node(f"situation {situation.name}", situation.snapshots)
    for timeline in timelines():
        lines += of_timeline(timeline)
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["nodes"]:
        write_nodes(Path(sys.argv[2]))
    else:
        record(Path(sys.argv[2]), Path(sys.argv[3]))
