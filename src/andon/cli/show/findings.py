"""Renders findings: a lamp, the area, what was found, and below it a fix or a hint."""

import re
import textwrap
from collections import Counter
from collections.abc import Sequence

from andon.cli.show.text import Text, join, styled
from andon.doctor.rules.findings import CheckResult, Grade, worst
from andon.model import wire

LAMPS = {
    Grade.FAILURE: ("✕", "bold red"),
    Grade.WARNING: ("▲", "yellow"),
    Grade.UNKNOWN: ("○", "dim"),
    Grade.OK: ("●", "green"),
}
_AREA = 9
_INDENT = 2 + _AREA + 2
_FIX = "fix: "
_HINT = "hint: "
_NARROW = _INDENT + 20  # below it words would be broken: there is no indent
_COUNTED = {
    Grade.FAILURE: ("failure", "failures"),
    Grade.WARNING: ("warning", "warnings"),
    Grade.UNKNOWN: ("not checked", "not checked"),
    Grade.OK: ("fine", "fine"),
}


def render_findings(
    findings: Sequence[CheckResult], title: Text, width: int, quiet: bool = False
) -> list[Text]:
    """Renders findings, worst first, then the count; with `quiet` only failures and warnings."""
    shown = [f for f in findings if not quiet or f.grade in (Grade.FAILURE, Grade.WARNING)]
    lines = [title.fit(width)]
    for finding in shown:
        lines += _finding(finding, width)
    total = summary(findings)
    lines += [total] if total.width <= width else _counts(findings)
    return lines


def summary(findings: Sequence[CheckResult]) -> Text:
    return join(_counts(findings), " · ")


def _counts(findings: Sequence[CheckResult]) -> list[Text]:
    counts = Counter(finding.grade for finding in findings)
    parts = [
        styled(f"{counts[grade]} {one if counts[grade] == 1 else many}", LAMPS[grade][1])
        for grade, (one, many) in _COUNTED.items()
        if counts[grade]
    ]
    return parts or [styled("nothing was checked", "dim")]


def _finding(finding: CheckResult, width: int) -> list[Text]:
    lamp, style = LAMPS[finding.grade]
    indent = 0 if width < _NARROW else _INDENT
    text_style = "dim" if finding.grade is Grade.UNKNOWN else ""
    wrapped = [styled(line, text_style) for line in _wrapped(finding.message, width - indent)]
    head = styled(f"{lamp} ", style) + styled(finding.check.area.ljust(_AREA + 2), "dim")
    if indent:
        lines = [head + wrapped[0], *(styled(" " * indent) + line for line in wrapped[1:])]
    else:
        lines = [head, *wrapped]
    if finding.grade is Grade.OK:
        return lines
    if finding.fix:
        lines += _fix(finding.fix, width, indent)
    if finding.hint:
        lines += _hint(finding.hint, width, indent)
    return lines


def _fix(fix: str, width: int, indent: int) -> list[Text]:
    inset = " " * (indent + len(_FIX)) if indent else ""
    first, *rest = broken_command(fix, width - indent - len(_FIX))
    lines = [styled(" " * indent + _FIX, "dim") + styled(first, "cyan")]
    return lines + [styled(inset + line, "cyan") for line in rest]


def _hint(hint: str, width: int, indent: int) -> list[Text]:
    inset = " " * (indent + len(_HINT)) if indent else ""
    first, *rest = _wrapped(hint, width - indent - len(_HINT))
    return [
        styled(" " * indent + _HINT, "dim") + styled(first),
        *(styled(inset + line) for line in rest),
    ]


def broken_command(command: str, room: int) -> list[str]:
    """Breaks a command after `&&` and `|`, so that it still works when pasted into a shell."""
    lines = [""]
    for part in re.split(r"(?<=&&) |(?<= \|) ", command):
        longer = f"{lines[-1]} {part}".strip()
        if len(longer) <= room:
            lines[-1] = longer
        else:
            lines += _wrapped(part, room)
    return [line for line in lines if line]


def _wrapped(text: str, room: int) -> list[str]:
    return textwrap.wrap(text, room, break_on_hyphens=False, break_long_words=False) or [""]


def findings_to_json(
    schema: str, findings: Sequence[CheckResult], node: str, at: float, code: int
) -> wire.Json:
    return {
        "schema": schema,
        "node": node,
        "at": at,
        "grade": str(worst(findings)),
        "exit_code": code,
        "findings": [_to_json(finding) for finding in findings],
    }


def _to_json(finding: CheckResult) -> wire.Json:
    return {
        "id": str(finding.check),
        "area": finding.check.area,
        "grade": str(finding.grade),
        "message": finding.message,
        "fix": finding.fix or None,
        "hint": finding.hint or None,
        "evidence": dict(finding.evidence),
    }
