"""Answers of several nodes: as one text with a column of their names, one JSON document or one
CSV."""

import re
import sys
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from andon.cli.live_screen import is_capable
from andon.cli.show.csv_table import csv_line
from andon.cli.show.text import Text, display_width, harmless, styled, without_commands
from andon.cli.terminal import Terminal, write
from andon.errors import AndonError
from andon.leases.refusal import clock
from andon.model import wire
from andon.model.device import SNAPSHOT
from andon.model.naming import range_of, short_model
from andon.units import counted, human_bytes, human_seconds

SNAPSHOTS, ANSWERS = "andon.snapshots/1", "andon.answers/1"
MOST_NAME, LEAST_TEXT = 32, 40
SMI_MARK = "by nvidia-smi: leases unknown"
NO_ANSWER = "no answer"
NO_CONNECTION = ("ssh", "unreached")
"""Causes of errors before anyone could answer."""
_UNITS = frozenset(("GiB", "MHz", "PCIe", "kWh"))  # of headings
_SGR = re.compile(r"\x1b\[[0-9;]*m")


class NodeAnswer(Struct, frozen=True):
    """What one node answered, or why it did not."""

    name: str
    error: AndonError | None = None
    text: str = ""
    code: int = 0
    seconds: float = 0.0
    by: str | None = None
    free: int | None = None  # GPUs, where that is known
    current: bool = True  # whether this is its state now
    remark: str | None = None  # in a line after its answer

    @property
    def answered(self) -> bool:
        """Whether someone answered for it, if only that it cannot do what was asked for."""
        return self.error is None or (self.by is not None and self.error.cause not in NO_CONNECTION)

    @property
    def reason(self) -> str | None:
        if self.error is None:
            return None if self.current else self.remark
        return self.error.reason + (f"; {self.error.hint}" if self.error.hint else "")


class NodeTable:
    """Prints answers as they come, in the order of the nodes; on a terminal, nodes that have not
    answered yet have a line that is replaced."""

    def __init__(
        self, names: Sequence[str], form: str, terminal: Terminal, noun: str = "host"
    ) -> None:
        """`form`: text, json, csv or free; `noun`: what the nodes are called."""
        self._names, self._form, self._terminal, self._noun = names, form, terminal, noun
        self._column = min(max(map(display_width, (*names, noun))), MOST_NAME)
        self.width = max(LEAST_TEXT, terminal.width - self._column - 2)
        self._found: dict[int, NodeAnswer] = {}
        self._printed, self._heading, self._drawn = 0, "", 0
        self._out = sys.stdout
        live = terminal.live and form in ("text", "free") and is_capable()
        self._redraws = live and len(names) < terminal.height

    def begin(self) -> None:
        self._put((), self._waiting)

    def add(self, place: int, answer: NodeAnswer) -> None:
        self._found[place] = answer
        lines = list[str]()
        while self._form in ("text", "csv") and self._printed in self._found:
            found = self._found[self._printed]
            lines += self._csv(found) if self._form == "csv" else self.lines(found)
            self._printed += 1
        self._put(lines, self._waiting)

    @property
    def _waiting(self) -> Sequence[str]:
        """The nodes whose lines will be replaced."""
        names = enumerate(self._names) if self._redraws else ()
        return [name for place, name in names if place not in self._found]

    def end(self) -> None:
        answers = [self._found[place] for place in sorted(self._found)]
        if self._form == "json":
            value = answers_to_json(answers, self._noun)
            write(self._out, wire.dumps(value, indented=self._terminal.live) + "\n")
            return
        if self._form == "free":
            answers = ranked(answers)
            self._put([line for answer in answers for line in self.lines(answer)], ())
        if self._form != "csv":
            line = styled(summary(answers, self._noun), "dim").fit(self._terminal.width)
            write(self._out, line.paint(self._terminal.color) + "\n")

    def _put(self, lines: Sequence[str], waiting: Sequence[str]) -> None:
        """Writes lines over those of the nodes that were waiting, which follow again."""
        up = f"\x1b[{self._drawn}F\x1b[J" if self._drawn else ""
        below = [self._named(name, styled("…", "dim")) for name in waiting]
        self._drawn = len(below)
        if lines or up or below:
            write(self._out, up + "".join(f"{line}\n" for line in (*lines, *below)))

    def lines(self, answer: NodeAnswer) -> list[str]:
        if answer.error is not None:
            reason = answer.reason or ""
            known = answer.answered or reason.startswith(NO_ANSWER)
            text = styled("" if known else f"{NO_ANSWER}  ", "yellow") + styled(reason)
            return [self._named(answer.name, text)]
        lines = list[str]()
        for line in answer.text.rstrip("\n").split("\n"):
            if _is_heading(line):
                if line != self._heading:
                    lines.append(self._prefixed(self._noun.upper(), without_commands(line), "dim"))
                self._heading = line
            elif line.strip():
                lines.append(self._prefixed(answer.name, without_commands(line)))
        if answer.by == "nvidia-smi" and len(lines) > 1:
            lines.append(self._named(answer.name, styled(SMI_MARK, "dim")))
        if answer.remark is not None:
            lines.append(self._named(answer.name, styled(answer.remark, "yellow")))
        return lines

    def _named(self, name: str, text: Text) -> str:
        return self._prefixed(name, text.fit(self.width).paint(self._terminal.color))

    def _prefixed(self, name: str, line: str, style: str = "bold") -> str:
        cell = styled(harmless(name), style).fit(self._column)
        room = " " * (self._column + 2 - cell.width)  # painting leaves out spaces at an end
        return cell.paint(self._terminal.color) + room + line

    def _csv(self, answer: NodeAnswer) -> list[str]:
        if answer.error is not None:
            write(sys.stderr, f"andon: {harmless(f'{answer.name}: {answer.reason}')}\n")
            return []
        head, *rows = answer.text.splitlines()
        first = [] if self._heading else [(self._noun, head)]
        lines = [*first, *((answer.name, row) for row in rows)]
        self._heading, named = head, self._noun not in head.split(",")  # else each row has it
        return [csv_with_name(name, line) if named else line for name, line in lines]


def csv_with_name(name: str, line: str) -> str:
    """Puts a cell before those of a line."""
    return csv_line((name,)).rstrip("\n") + "," + line


def _is_heading(line: str) -> bool:
    """Whether it has only names of columns."""
    cells = _SGR.sub("", line).split()
    return len(cells) > 1 and all(word.isupper() or word in _UNITS for word in cells)


def answers_to_json(answers: Sequence[NodeAnswer], noun: str) -> wire.Json:
    """`andon.snapshots/1`; of another command than status, `andon.answers/1`."""
    found = [
        (one, wire.loads(one.text, wire.ANSWER) if one.error is None else None) for one in answers
    ]
    kinds = {value.get("schema") for _, value in found if value is not None}
    name, schema = ("snapshot", SNAPSHOTS) if kinds <= {SNAPSHOT} else ("answer", ANSWERS)
    return {
        "schema": schema,
        f"{noun}s": [
            {
                noun: one.name,
                "answered": one.answered and one.current,
                "reason": one.reason,
                "seconds": round(one.seconds, 3),
                "by": one.by,
                name: value,
            }
            for one, value in found
        ],
    }


def summary(answers: Sequence[NodeAnswer], noun: str) -> str:
    """`4 of 5 hosts answered, 11 GPUs free`."""
    good = sum(one.answered and one.current for one in answers)
    text = f"{good} of {counted(len(answers), noun)} answered"
    known = [one.free for one in answers if one.answered and one.free is not None]
    return f"{text}, {counted(sum(known), 'GPU')} free" if known else text


def offer_line(found: wire.Json) -> str:
    """Returns the JSON of `andon free` in a line: `GPU 0-3  4 free, 80.0 GiB each, H100`."""
    rows = [row for row in found["devices"] if row["code"] not in ("not_requested", "model")]
    free = [row for row in rows if row["kind"] == "free"]
    labels = range_of([row["label"] for row in free])
    names = dict.fromkeys(short_model(row["name"], brief=True) for row in free if row.get("name"))
    models = f", {' and '.join(names)}" if names else ""
    if found["available"] and "now" in found:
        return _later_line(found, labels)
    if found["available"]:
        sizes = list(dict.fromkeys(_size(row["free_bytes"]) for row in free))
        size = f"{sizes[0]} each" if len(sizes) == 1 and len(free) > 1 else " and ".join(sizes[:3])
        mark = ", SIMULATED" * bool(found.get("simulated"))
        return free_text([row["label"] for row in free], f"{size}{models}{mark}")
    shown = [f"{len(free)} free" + (f" (GPU {labels}{models})" if free else "")]
    counts = {"held": "held", "in_use": "in use without a lease", "withheld": "not available"}
    parts = [(sum(row["kind"] == kind for row in rows), text) for kind, text in counts.items()]
    shown += [", ".join(f"{count} {text}" for count, text in parts if count)]
    return f"{'–':<14}  " + "; ".join(filter(None, shown))


def _later_line(found: wire.Json, labels: str) -> str:
    """Returns `GPU 0-3         from Sat 21 Nov 06:00 (in 1 d 12 h), for 2 d`."""
    at, now, until = found["at"], found["now"], found.get("until")
    when = f"from {clock(at, now)} (in {human_seconds(at - now)})" if at > now else "now"
    lasts = f", for {human_seconds(until - at)}" if until is not None else ""
    return f"{f'GPU {labels}':<14}  {when}{lasts}"


def _size(free_bytes: int | None) -> str:
    return "memory unknown" if free_bytes is None else human_bytes(free_bytes)


def free_text(labels: Sequence[str], what: str) -> str:
    """Returns `GPU 1, 6        2 free, 80.0 GiB each, H100`."""
    return f"{f'GPU {range_of(labels)}':<14}  {len(labels)} free, {what}"


def ranked(answers: Sequence[NodeAnswer]) -> list[NodeAnswer]:
    """Returns answers of `andon free` as a line each, the best first; the last are those that have
    not answered, and before them those that can never meet the request."""
    return [one for _, one in sorted(map(_as_offer, answers), key=lambda pair: pair[0])]


def _as_offer(answer: NodeAnswer) -> tuple[tuple[bool, bool, float, int, int], NodeAnswer]:
    if answer.error is not None:
        return (not answer.answered, True, 0.0, 0, 0), replace(answer, free=None)
    found = wire.loads(answer.text, wire.ANSWER)
    free = [row for row in found["devices"] if row["kind"] == "free"]
    size = sum(r["free_bytes"] or 0 for r in free)
    rank = False, not found["available"], found["at"] * ("now" in found), -len(free), -size
    mark = f"; {SMI_MARK}" if answer.by == "nvidia-smi" else ""
    return rank, replace(answer, text=offer_line(found) + mark, free=len(free))
