"""Checks as text: a line for each card with its numbers and the verdict; earlier ones by card."""

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median

from andon.checks.rules.judging import JUDGED, NAMES
from andon.cli.show.render import paragraph
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import Text, known, styled, with_mark
from andon.model.check import CardResult, CheckVerdict, PeerSpeed
from andon.model.naming import short_model
from andon.units import counted, human_bytes, human_seconds

STYLES = {
    CheckVerdict.OK: "green", CheckVerdict.UNJUDGED: "", CheckVerdict.SLOW: "yellow",
    CheckVerdict.NOT_CHECKED: "dim", CheckVerdict.STOPPED: "dim",
}  # fmt: skip
TERA = 1e12
GIGA = 1e9
SIMULATED = "SIMULATED"
OUT_OF_SERVICE = "andon cordon"
WIDEST = 400


def render_checks(
    results: Sequence[CardResult], width: int, peers: Sequence[PeerSpeed] = ()
) -> list[Text]:
    """The table of a check; a verdict that has no place in it is below."""
    rows = [TableRow(one) for one in sorted(results, key=_order)]
    lines = draw([*_numbers(), TableColumn("RESULT", _result)], rows, WIDEST)
    beside = max(line.width for line in lines) <= width
    if not beside:
        lines = draw(_numbers(), rows, width)
    for row in () if beside else rows:
        lines += paragraph(
            f"GPU {row.value.label}: {_sentence(row.value)}", width, _style(row.value)
        )
    lines += _reasons(results, width)
    if peers:
        lines += [Text(), *_matrix(peers, width)]
    mark = SIMULATED if any(one.simulated for one in results) else ""
    return with_mark(lines, mark, width)


def _order(result: CardResult) -> tuple[int, ...]:
    return tuple(int(part) for part in result.label.split(":") if part.isdigit())


def _numbers() -> list[TableColumn[CardResult]]:
    return [
        TableColumn("GPU", lambda one: styled(one.label, "bold"), 0, lead=True),
        TableColumn("MODEL", lambda one: styled(short_model(one.model, True)), 2, lead=True),
        TableColumn("FP32", lambda one: _tera(one.value("fp32"), "TFLOP/s", 1), 3, right=True),
        TableColumn("TENSOR", lambda one: _tera(one.value("tensor"), "TFLOP/s", 0), 4, right=True),
        TableColumn("MEMORY", lambda one: _tera(one.value("memory"), "TB/s", 2), 5, right=True),
        TableColumn("HOST LINK", lambda one: styled(_link(one)), 6),
        TableColumn("TESTED", lambda one: _tested(one), 7, right=True),
    ]


def _tera(value: float | None, unit: str, digits: int) -> Text:
    return known(value, lambda one: f"{one / TERA:.{digits}f} {unit}")


def _link(result: CardResult) -> str:
    up, down = result.value("to_device"), result.value("from_device")
    part = result.part("to_device")
    lanes = ""
    if part is not None and part.pcie_width and part.pcie_generation:
        lanes = f"{part.pcie_generation}×{part.pcie_width}"
    if up is None or down is None:
        return lanes or "–"
    return f"{up / GIGA:.0f}/{down / GIGA:.0f} GB/s {lanes}".rstrip()


def _tested(result: CardResult) -> Text:
    return known(result.tested_bytes or None, human_bytes)


def _result(result: CardResult) -> Text:
    return styled(_sentence(result), _style(result))


def _style(result: CardResult) -> str:
    return STYLES.get(result.verdict, "red")


def _sentence(result: CardResult) -> str:
    """The verdict with what to do about it."""
    text = result.text or str(result.verdict)
    if result.verdict is CheckVerdict.NOT_CHECKED:
        text = f"not checked: {text}"
    if result.verdict.is_broken or result.verdict is CheckVerdict.HUNG:
        return f"{text} · {OUT_OF_SERVICE} {result.label}"
    return f"{text} · andon why {result.label}" if result.verdict is CheckVerdict.SLOW else text


def _reasons(results: Sequence[CardResult], width: int) -> list[Text]:
    """Why a number is missing, once for all cards; and what came beside the verdict."""
    found: dict[str, list[str]] = {}
    for result in results:
        for part in result.parts:
            if part.reason is not None:
                name = NAMES["link" if part.name == "to_device" else part.name]
                if part.name != "from_device":
                    found.setdefault(f"{name}: {part.reason}", []).append(result.label)
        if result.rows is not None:
            found.setdefault(f"memory: {_rows(result)}", []).append(result.label)
        if result.events:
            found.setdefault(f"meanwhile {', '.join(result.events)}", []).append(result.label)
    return [
        line
        for text, labels in found.items()
        for line in paragraph(f"GPU {', '.join(labels)}: {text}", width, "dim")
    ]


def _rows(result: CardResult) -> str:
    """The rows that were remapped, before and after, and the errors that were counted."""
    before, after = result.rows_before, result.rows
    texts = [] if after is None else [after.text]
    if before is not None and before != after:
        texts.append(f"before the check {before.text}")
    if result.new_ecc is not None:
        texts.append(counted(result.new_ecc, "new uncorrected error"))
    return ", ".join(texts)


def _matrix(peers: Sequence[PeerSpeed], width: int) -> list[Text]:
    """What each card copies to each other, in GB/s."""
    labels = list(dict.fromkeys(one.source for one in peers))
    speeds = {(one.source, one.target): one for one in peers}

    def cell(target: str, source: str) -> Text:
        one = speeds.get((source, target))
        if one is None:
            return styled("–", "dim")
        text = f"{one.bytes_per_second / GIGA:.0f}{'' if one.direct else '*'}"
        return styled(text, "" if one.right else "red")

    columns = [TableColumn[str]("FROM", lambda source: styled(source, "bold"), 0)]
    columns += [TableColumn(f"TO {one}", partial(cell, one), 1, right=True) for one in labels]
    lines = draw(columns, [TableRow(one) for one in labels], width)
    note = "GB/s between cards"
    if any(not one.direct for one in peers):
        note += "; * over the host's memory"
    if any(not one.right for one in peers):
        note += "; red: WRONG DATA arrived"
    return [*lines, styled(note, "dim")]


def render_history(results: Sequence[CardResult], width: int, now: float) -> list[Text]:
    """Earlier checks, the newest first, each with its drift since the first of its card."""
    if not results:
        return [styled("nothing was checked yet: andon check")]
    firsts = first_of_kind(results)
    columns = [
        *_numbers()[:5],
        TableColumn("SINCE FIRST", lambda one: styled(drift_text(one, firsts)), 6, right=True),
        TableColumn(
            "WHEN", lambda one: styled(f"{human_seconds(now - one.at)} ago"), 3, right=True
        ),
        TableColumn("RESULT", _result, 1, elastic=20),
    ]
    rows = [TableRow(one) for one in sorted(results, key=lambda one: -one.at)]
    return draw(columns, rows, width)


def first_of_kind(results: Sequence[CardResult]) -> Mapping[tuple[object, ...], CardResult]:
    """Returns the first comparable result of each card."""
    found: dict[tuple[object, ...], CardResult] = {}
    for one in sorted(results, key=lambda one: one.at):
        if one.verdict.is_measured:
            found.setdefault((one.uuid, *one.kind), one)
    return found


def drift_text(result: CardResult, firsts: Mapping[tuple[object, ...], CardResult]) -> str:
    """`-2.1 %`: the middle of how its numbers changed since the first; empty for the first."""
    first = firsts.get((result.uuid, *result.kind))
    if first is None or first is result or not result.verdict.is_measured:
        return ""
    changes = [
        now / before - 1
        for name in JUDGED
        if (now := result.value(name)) and (before := first.value(name))
    ]
    return f"{100 * median(changes):+.1f} %" if changes else ""
