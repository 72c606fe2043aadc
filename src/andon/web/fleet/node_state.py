"""The parts of a reported node, as a server has them for its own: what routes read."""

from collections.abc import Sequence
from typing import Any, cast

from andon.errors import Gone, Unavailable
from andon.jobs.rules.views import JobListing
from andon.model.job.facts import JobView
from andon.web.app_state import AppState
from andon.web.fleet.reported import ReportedNode
from andon.web.jobs.seen import ServerJobs
from andon.web.runs.shown import FoundRuns, ServerRuns
from andon.web.transport.keys import Keys


def node_state(node: ReportedNode, keys: Keys) -> AppState:
    part = cast("Any", node)
    why_not = f"jobs are submitted on {node.name}"
    jobs = ServerJobs(_Jobs(node), node.listed, lambda: why_not, _refuse)
    runs = ServerRuns(lambda: FoundRuns(node.runs), f"The runs of {node.name}")
    return AppState(
        part, keys, part, {}, watcher=cast("Any", _Watcher(node)), remote_leases=part, jobs=jobs,
        runs=runs,
    )  # fmt: skip


def _refuse(_document: dict[str, Any]) -> Sequence[int]:
    raise Unavailable("a hub runs nothing on its nodes", hint="submit there: andon submit")


class _Watcher:
    """The alerts of a node; its past ones are not its snapshots."""

    def __init__(self, node: ReportedNode) -> None:
        self._node = node
        self.alerts, self.firing, self.silences = node.alerts, node.firing, node.silences
        self.past, self.find, self.rulebook = node.past_alerts, node.find, node.rulebook
        self.awake = node.awake


class _Jobs:
    """The jobs that a node reported, in place of a folder."""

    def __init__(self, node: ReportedNode) -> None:
        self._node, self.user = node, node.name

    def listing(self) -> JobListing:
        return JobListing(tuple(self._node.jobs()))

    def view(self, job: int) -> JobView:
        for one in self._node.jobs():
            if one.number == job:
                return one
        raise Gone(f"{self._node.name} reported no job {job}", hint=self._on_node("jobs"))

    def log(self, job: int, *_: object) -> Any:
        raise Unavailable(
            "the output of a job stays on its node", hint=self._on_node(f"logs {job}")
        )

    def act(self, *_: object) -> Any:
        raise Unavailable("jobs are changed on their node", hint=self._on_node("cancel ID"))

    def _on_node(self, command: str) -> str:
        return f"on {self._node.name}: andon {command}"
