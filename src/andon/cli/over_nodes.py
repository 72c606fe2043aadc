"""A command over several nodes, hosts over SSH or those of a hub: which can be asked so, how their
answers are printed, and with which exit code."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from andon.cli.node_answers import NodeAnswer, NodeTable
from andon.cli.several_nodes import AskedNode, NodeLimits, SeveralNodes
from andon.cli.sources import resolved_of
from andon.cli.terminal import Choices, Terminal
from andon.errors import Invalid

READING = frozenset(
    ("status", "ps", "devices", "history", "why", "alerts", "alerts show", "alerts rules", "free",
     "leases", "who", "jobs", "runs", "estimate", "doctor")
)  # fmt: skip
"""Commands that can be asked of several nodes."""
NONE_ANSWERED, SOME_ANSWERED, NOT_AVAILABLE = 3, 1, 1


class NodeGroup(Protocol):
    """The nodes that are meant, and how one is opened."""

    @property
    def noun(self) -> str: ...

    @property
    def follow_hint(self) -> str:
        """What to type instead of --follow."""

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def limits(self) -> NodeLimits: ...

    def opened(self, name: str, shared: Mapping[str, Any]) -> tuple[AskedNode, Choices]:
        """Returns a node, and the choices of a command that asks it: these, and its own."""


def over_nodes(
    choices: Choices,
    group: NodeGroup,
    path: str,
    command: Callable[..., Any],
    args: Sequence[Any],
    more: Mapping[str, Any],
) -> int:
    """Calls a command for each node; returns the exit code."""
    if more.get("follow"):
        raise Invalid("--follow is for one machine", hint=group.follow_hint)
    form = _form(more)
    if path == "free" and not more["as_json"]:
        more, form = {**more, "as_json": True}, "free"
    table = NodeTable(group.names, form, Terminal.of(choices), group.noun)
    shared = vars(choices) | {
        "ssh": (), "hosts_file": None, "quiet": True, "width": table.width, "warned": True,
        "color": "always" if Terminal.of(choices).color else "never",
        "resolved": resolved_of(choices),  # a mistake in them is reported once
    }  # fmt: skip
    table.begin()
    asked = SeveralNodes(group.names, group.limits, lambda name: group.opened(name, shared))
    answers = asked.ask(lambda: command(*args, **more), table.add)
    table.end()
    return code_of(path, answers, worst=bool(more.get("by_level")))


def code_of(path: str, answers: Sequence[NodeAnswer], worst: bool = False) -> int:
    """Returns what the command returns on the node that can do most, if all have answered; `worst`:
    where alerts are worst. Of `andon free`: at once, later or never, wherever that is. A node that
    its hub does not hear counts where none is heard."""
    heard = [one for one in answers if one.heard or not one.answered]
    answers = heard or answers
    codes = [one.code for one in answers if one.answered]
    if path == "free":
        known = [one for one in codes if one in (0, NOT_AVAILABLE)]
        same = codes if len(set(codes)) == 1 else [NONE_ANSWERED]
        return min(known or same)
    if len(codes) == len(answers):
        return max(codes) if worst else min(codes)
    return SOME_ANSWERED if codes else NONE_ANSWERED


def _form(more: Mapping[str, Any]) -> str:
    """Returns json, csv or text."""
    form = more.get("form")
    if more.get("as_json") or form == "json":
        return "json"
    if more.get("as_csv") or form == "csv":
        return "csv"
    if form not in (None, "text"):
        raise Invalid(f"several nodes print text, JSON or CSV, not {form}")
    return "text"
