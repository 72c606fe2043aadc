"""A node with runs or jobs alone, as someone sees it."""

from types import SimpleNamespace
from typing import Any, cast

from andon.access.roles import BLIND, Identity, Role, Sight
from andon.model.lease_list import LeaseList
from andon.node.seen.node import SeenNode
from andon.node.served import JobsToShow
from andon.node.watched.leases import ServedLeases
from andon.node.watched.runs import ServedRuns
from tests.support.snapshots import farm


def seen_node(
    who: Sight | Identity,
    runs: ServedRuns | None = None,
    jobs: JobsToShow | None = None,
    book: LeaseList | None = None,
) -> SeenNode:
    if isinstance(who, Sight):
        role = Role.OWNER if who.everything else Role.ANONYMOUS if who == BLIND else Role.USER
        who = Identity(role, who.uid, who.user)
    leases = ServedLeases(None if book is None else lambda _: book, farm)
    node = SimpleNamespace(
        of_this_machine=True, recording=False, leases=leases, runs=runs, jobs=jobs
    )
    return SeenNode(cast("Any", node), who)
