"""A node with runs or jobs alone, as someone sees it."""

from types import SimpleNamespace
from typing import Any, cast

from andon.access.roles import BLIND, Identity, Role, Sight
from andon.node.seen.jobs import SeenJobs
from andon.node.seen.node import SeenNode
from andon.node.seen.runs import SeenRuns


def seen_node(sight: Sight, runs: SeenRuns | None = None, jobs: SeenJobs | None = None) -> SeenNode:
    role = Role.OWNER if sight.everything else Role.ANONYMOUS if sight == BLIND else Role.USER
    node = SimpleNamespace(of_this_machine=True, runs=runs, jobs=jobs)
    return SeenNode(cast("Any", node), Identity(role, sight.uid, sight.user))
