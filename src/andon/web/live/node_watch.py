"""Live events of a hub's nodes: the rows that changed, for clients that have the list open."""

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from andon.fleet.rules.states import NodeRow
from andon.model.shapes import to_json
from andon.node.seen.node import SeenNode
from andon.web.bindings.live_server import Prepared
from andon.web.fleet.hub import Hub
from andon.web.fleet.listing import rows_for
from andon.web.history_reader import HistoryReader
from andon.web.live.watch import Emit, Wants, Watch, prepared

NODES = "nodes"


class NodeWatch(Watch):
    """Publishes changed rows, also those of nodes that report to another hub of the database."""

    events = NODES

    def __init__(self, reader: HistoryReader, hub: Hub) -> None:
        self._reader, self._hub = reader, hub
        self._sent: dict[bool, dict[str, NodeRow]] = {}
        """By whether the callers see everything."""

    def forget(self) -> None:
        self._sent = {}

    async def first(self, node: SeenNode) -> tuple[str, Prepared]:
        """Returns every row, for who has just subscribed."""
        rows = await self._reader.do(lambda: rows_for(node, self._hub))
        return "nodes", _event(rows, (), whole=True)

    async def publish(self, wants: Wants, emit: Emit) -> None:
        """A new report alone is no change."""
        nodes = wants[NODES]
        read = dict[bool, list[NodeRow]]()
        for everything in {node.sight.everything for node in nodes}:
            node = next(one for one in nodes if one.sight.everything is everything)
            read[everything] = await self._reader.do(lambda: rows_for(node, self._hub))  # noqa: B023
        sent, self._sent = self._sent, {}
        texts = dict[bool, Prepared | None]()
        for everything, rows in read.items():
            self._sent[everything] = {one.name: _without_age(one) for one in rows}
            texts[everything] = self._changes(rows, sent.get(everything))
        for node in nodes:
            if (text := texts[node.sight.everything]) is not None:
                await emit("nodes", text, NODES, node.sight)

    def _changes(
        self, rows: Collection[NodeRow], before: dict[str, NodeRow] | None
    ) -> Prepared | None:
        if before is None:
            return None  # each client got the first ones when it subscribed
        changed = [one for one in rows if before.get(one.name) != _without_age(one)]
        gone = sorted(before.keys() - {one.name for one in rows})
        return _event(changed, gone, whole=False) if changed or gone else None


def _event(rows: Collection[NodeRow], gone: Sequence[str], whole: bool) -> Prepared:
    return prepared({"nodes": to_json(list(rows)), "gone": list(gone), "whole": whole})


def _without_age(row: NodeRow) -> NodeRow:
    """How long a node has been silent is in its reason, in words that change ever more rarely."""
    return replace(row, age_seconds=None)
