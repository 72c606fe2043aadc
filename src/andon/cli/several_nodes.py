"""Runs a command for several nodes at once, each with its own choices, output and thread."""

import io
import time
from collections.abc import Callable, Sequence
from copy import copy
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Protocol

import click

from andon.cli.node_answers import NodeAnswer
from andon.cli.terminal import Choices, for_machine
from andon.errors import Unavailable
from andon.node.ssh.calls import SshLimits
from andon.node.ssh.failures import UNEXPECTED, unexpected

POLL_SECONDS, PATIENT_SECONDS = 0.05, 1.0
END_SECONDS = 2.0  # for all threads to end, once their requests were cancelled


class ReachedNode(Protocol):
    """What is shown of a node that has answered, besides what the command printed."""

    @property
    def by(self) -> str | None:
        """What answered for the node: andon and its version, or nvidia-smi; None until there is an
        answer."""

    @property
    def current(self) -> bool:
        """Whether its values are current; otherwise its last known state is shown."""

    @property
    def remark(self) -> str | None:
        """A remark to print below its answer."""

    def free(self) -> int | None:
        """Returns how many devices were free at the last reading; None if that is not known."""

    def close(self) -> None: ...


class SeveralNodes:
    """Runs a command for each node of a list, each in a thread of its own."""

    def __init__(
        self,
        names: Sequence[str],
        limits: SshLimits,
        opened: Callable[[str], tuple[ReachedNode, Choices]],
    ) -> None:
        """`opened` returns a node and the choices of a command about it."""
        self._names, self._limits, self._opened = names, limits, opened
        self._threads = dict[int, Thread]()
        self._done = SimpleQueue[tuple[int, NodeAnswer | BaseException]]()

    def ask(
        self, call: Callable[[], Any], add: Callable[[int, NodeAnswer], None]
    ) -> list[NodeAnswer]:
        """Returns the answers in the order of the nodes; `add` gets each as it comes."""
        waiting, found = list(enumerate(self._names))[::-1], dict[int, NodeAnswer]()
        context, limits = click.get_current_context(), self._limits
        try:
            while len(found) < len(self._names):
                while waiting and limits.left and limits.has_room(len(self._threads)):
                    self._begin(*waiting.pop(), context, call)
                done = self._next(POLL_SECONDS if waiting else PATIENT_SECONDS)
                if not limits.left:
                    late = Unavailable(f"not asked: {limits.seconds:g} s were over")
                    done += [(place, NodeAnswer(name, late)) for place, name in waiting]
                    waiting = []
                for place, answer in done:
                    found[place] = answer
                    add(place, answer)
        except BaseException:
            limits.end()
            until = time.monotonic() + END_SECONDS
            for thread in self._threads.values():
                thread.join(max(0.0, until - time.monotonic()))
            raise
        return [found[place] for place in range(len(found))]

    def _begin(
        self, place: int, name: str, context: click.Context, call: Callable[[], Any]
    ) -> None:
        arguments = (name, *self._opened(name), context, call)

        def run() -> None:
            try:
                self._done.put((place, _answer(*arguments)))
            except BaseException as exc:  # noqa: BLE001 - the caller's thread raises it
                self._done.put((place, exc))

        self._threads[place] = Thread(target=run, name=f"asks {name}", daemon=True)
        self._threads[place].start()

    def _next(self, seconds: float) -> list[tuple[int, NodeAnswer]]:
        """Waits for an answer; raises an error of the command itself."""
        try:
            place, answer = self._done.get(timeout=seconds)
        except Empty:
            return []
        self._threads.pop(place).join()
        if isinstance(answer, BaseException):
            raise answer
        return [(place, answer)]


def _answer(
    name: str, node: ReachedNode, choices: Choices, context: click.Context, call: Callable[[], Any]
) -> NodeAnswer:
    began, error, code = time.monotonic(), None, 0
    choices.out = text = io.StringIO()
    try:
        with _twin(context, choices).scope(cleanup=False):
            code = int(call() or 0)
    except UNEXPECTED as exc:
        error = unexpected(exc)
        url = choices.node.url if choices.node is not None else None
        error.reason = error.reason.removeprefix(f"{url}: ")  # the row has its name
        error.hint = for_machine(error.hint, choices)
        code = error.exit_code
    finally:
        node.close()
    took = time.monotonic() - began
    known = (node.by, node.free(), node.current, node.remark)
    return NodeAnswer(name, error, text.getvalue(), code, took, *known)


def _twin(context: click.Context, choices: Choices) -> click.Context:
    """Returns a copy of the context with these choices."""
    own = copy(context)
    if context.parent is None:
        own.obj = choices
    else:
        own.parent = _twin(context.parent, choices)
    return own
