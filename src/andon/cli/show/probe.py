"""Probes as text: a row for each size with a bar of its memory, then what follows from them."""

from collections.abc import Sequence

from andon.cli.show.render import paragraph
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import Text, known, percent, styled, with_mark
from andon.model.probe import ProbeResult, Trial, TrialState
from andon.units import fixed, human_bytes, measured_seconds
from andon.work.rules.probe import limited_by

BAR = 20
RESULTS = {
    TrialState.FITS: ("fits", "green"),
    TrialState.DEVICE_OUT_OF_MEMORY: ("out of GPU memory", "yellow"),
    TrialState.HOST_OUT_OF_MEMORY: ("out of host memory", "yellow"),
    TrialState.FAILED: ("failed", "red"),
    TrialState.HUNG: ("hung", "red"),
    TrialState.STOPPED: ("stopped", "dim"),
}
SIMULATED = "SIMULATED"


def trial_line(trial: Trial, total_bytes: int | None) -> str:
    """`64: fits, 12.1 GiB (9 %), GPU 87 %, 12 s`; what is unknown is left out."""
    parts = [RESULTS[trial.state][0]]
    if trial.peak_memory_bytes is not None:
        share = f" ({fixed(100 * trial.peak_memory_bytes / total_bytes)} %)" if total_bytes else ""
        parts.append(f"{human_bytes(trial.peak_memory_bytes)}{share}")
    if trial.utilization_percent is not None:
        parts.append(f"GPU {fixed(trial.utilization_percent)} %")
    if trial.throughput is not None:
        parts.append(f"throughput {trial.throughput:g}")
    parts.append(measured_seconds(trial.seconds))
    return f"{trial.size}: {', '.join(parts)}"


def render_probe(probe: ProbeResult, where: str, width: int) -> list[Text]:
    """The chart and the answer; `where` names the devices."""
    title = styled(where, "bold") + styled(f"  {probe.model} · {probe.command}")
    lines = with_mark([title], SIMULATED if probe.simulated else "", width)
    lines += [Text(), *_chart(probe, width), Text()]
    for line in answer_lines(probe):
        lines += [line] if line.width <= width else paragraph(line.plain, width)
    return lines


def answer_lines(probe: ProbeResult) -> list[Text]:
    """Returns what was found, and how certain it is."""
    lines = []
    if probe.largest is None:
        lines.append(styled("no size was found that fits", "bold"))
    else:
        lines.append(
            styled(f"largest size that fits: {probe.largest}", "bold") + styled(_above(probe))
        )
        margin = f"{probe.margin_percent:g} % less"
        lines.append(styled(f"recommended: {probe.recommended} ({margin})"))
    if probe.line is not None:
        line = probe.line
        fixed = human_bytes(max(0.0, line.fixed_bytes))
        lines.append(
            styled(
                f"memory: about {fixed} + {human_bytes(line.bytes_per_unit)} for each unit "
                f"(from {line.trials} trials below 80 % of the card)"
            )
        )
    elif probe.line_reason:
        lines.append(styled(f"memory over size is not known: {probe.line_reason}", "dim"))
    lines += [
        styled(f"less certain: {trial.size}: {trial.note}", "yellow")
        for trial in probe.trials
        if trial.note
    ]
    return lines


def _above(probe: ProbeResult) -> str:
    if probe.too_large is not None:
        return f" ({probe.too_large} does not: {limited_by(probe)})"
    if probe.complete:
        return f" (the largest that was allowed; {probe.high} is --max)"
    return " so far: the search did not finish"


def _chart(probe: ProbeResult, width: int) -> list[Text]:
    total = probe.memory_total_bytes
    columns: list[TableColumn[Trial]] = [
        TableColumn("SIZE", lambda one: styled(str(one.size)), 0, right=True),
        TableColumn("MEMORY", lambda one: _bar(one, total), 3),
        TableColumn("", lambda one: known(one.peak_memory_bytes, human_bytes), 1, right=True),
        TableColumn("GPU", lambda one: percent(one.utilization_percent), 4, right=True),
        TableColumn("TIME", lambda one: styled(measured_seconds(one.seconds)), 5, right=True),
    ]
    if any(trial.throughput is not None for trial in probe.trials):
        columns.append(
            TableColumn(
                "THROUGHPUT", lambda one: known(one.throughput, "{:g}".format), 6, right=True
            )
        )
    columns.append(TableColumn("RESULT", lambda one: styled(*RESULTS[one.state]), 2))
    rows = [TableRow(trial) for trial in sorted(probe.trials, key=lambda one: one.size)]
    return draw(columns, rows, width)


def _bar(trial: Trial, total: int | None) -> Text:
    if trial.peak_memory_bytes is None or not total:
        return known(None)
    cells = round(BAR * min(1.0, trial.peak_memory_bytes / total))
    style = "green" if trial.state is TrialState.FITS else "yellow"
    return styled("━" * cells, style) + styled("─" * (BAR - cells), "dim")


def render_probes(probes: Sequence[ProbeResult], width: int) -> list[Text]:
    """A line for each stored probe, newest first."""
    if not probes:
        return [styled("nothing was probed yet: andon probe --help")]
    columns: list[TableColumn[ProbeResult]] = [
        TableColumn("NAME", lambda one: styled(one.name, "bold"), 0, elastic=10),
        TableColumn("BEST", lambda one: known(one.recommended), 1, right=True),
        TableColumn("LARGEST", lambda one: known(one.largest), 2, right=True),
        TableColumn("DEVICES", lambda one: styled(_devices(one)), 3, elastic=8),
        TableColumn("COMMAND", lambda one: styled(one.command, "dim"), 4, elastic=12),
    ]
    return draw(columns, [TableRow(probe) for probe in probes], width)


def _devices(probe: ProbeResult) -> str:
    mark = f" {SIMULATED}" if probe.simulated else ""
    return f"{probe.devices} × {probe.model}{mark}"
