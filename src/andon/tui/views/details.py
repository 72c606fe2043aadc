"""The page of one device, and the details of one process."""

import time

from andon.cli.show import cells
from andon.cli.show.entries import NamedDevice
from andon.cli.show.process_rows import ProcessRow
from andon.cli.show.process_table import elapsed
from andon.cli.show.render import paragraph, state_message
from andon.cli.show.text import UNKNOWN, Text, join, styled
from andon.cli.show.why import reason_lines
from andon.model.device import Limits
from andon.model.programs import program_of
from andon.model.verdict import DeviceVerdict, VerdictKind
from andon.tui.graphs import line, values_across
from andon.tui.page import Frame, Page
from andon.tui.scene import ProcessEntry, process_entries
from andon.tui.views.charts import chart_rows
from andon.tui.views.processes import process_table
from andon.units import fixed, human_bytes, human_seconds

WHY_LINES = 7
_LIMITS = {
    "slowdown_celsius": ("slows down at", " °C"),
    "power_default_watts": ("default power limit", " W"),
    "sm_clock_mhz": ("highest clock", " MHz"),
}


def device_page(page: Page, frame: Frame, room: int) -> None:
    """Draws one device's reasons, graphs, availability, limits and processes."""
    entry = frame.scene.entry(frame.state.device)
    if entry is None:
        page.add(styled("this device is no longer listed (Esc goes back)", "yellow"))
        return
    status = entry.status
    end = len(page.lines) + room
    title = styled(f"{entry.title}  ", "bold") + styled(status.device.name)
    page.add((cells.lamp(entry) + styled(" ") + title + styled(f"  {status.device.uuid}", "dim"))
             .fit(frame.width))  # fmt: skip
    message = state_message(status, frame.scene.at)
    if message is not None:
        page.add(message.fit(frame.width))
    page.add_all(_why(frame, entry)[: WHY_LINES if room > 25 else 4])
    page.add(_readings(entry).fit(frame.width))
    page.add(_availability(frame.scene.verdicts.get(status.device.uuid)).fit(frame.width))
    left = end - len(page.lines)
    height = min(12, (left - 6) // (1 if frame.width >= 94 else 2))
    if frame.state.graphs and height >= 2:
        chart_rows(page, frame, entry, height)
    rows = [
        row
        for row in process_entries(frame.scene, frame.state.processes)
        if row.use is not None and row.use.entry.status.device.uuid == status.device.uuid
    ]
    process_table(page, frame, rows, end - len(page.lines), hidden=("device",))


def _why(frame: Frame, entry: NamedDevice) -> list[Text]:
    if frame.scene.why_device != entry.status.device.uuid:
        return [styled("…", "dim")]
    lines: list[Text] = []
    for number, reason in enumerate(frame.scene.why):
        lines += reason_lines(reason, frame.width, first=number == 0, at=frame.scene.at)
    return lines


def _readings(entry: NamedDevice) -> Text:
    limits: Limits = entry.status.device.limits
    parts = [
        styled(f"{label} ", "dim") + styled(f"{fixed(value)}{unit}")
        for name, (label, unit) in _LIMITS.items()
        if (value := getattr(limits, name)) is not None
    ]
    sample = entry.status.sample if entry.status.answered else None
    if sample is not None and sample.sm_clock_mhz is not None:
        parts.append(styled("clock ", "dim") + styled(f"{sample.sm_clock_mhz} MHz"))
    throttle = cells.throttle(entry)
    if throttle.width > 1:
        parts.append(styled("throttled: ", "dim") + throttle)
    return styled("limits  ", "dim") + (join(parts, " · ") if parts else styled(UNKNOWN, "dim"))


def _availability(verdict: DeviceVerdict | None) -> Text:
    if verdict is None:
        return styled("lease   ", "dim") + styled("not known", "dim")
    if verdict.kind is VerdictKind.FREE:
        return styled("lease   ", "dim") + styled("free", "bold green")
    text = verdict.reason or str(verdict.kind).replace("_", " ")
    text += f" by {verdict.by}" if verdict.by and verdict.reason is None else ""
    parts = [styled(text)]
    if verdict.lease:
        parts.append(styled(f"lease {verdict.lease}", "dim"))
    if verdict.until is not None:
        clock = time.strftime("%H:%M", time.localtime(verdict.until))
        parts.append(styled(f"until {clock}", "dim"))
    return styled("lease   ", "dim") + join(parts, " · ")


def process_page(page: Page, frame: Frame, rows: list[ProcessEntry], room: int) -> None:
    """Draws a process: its command, where it runs, what it uses, memory over time, environment."""
    key = frame.state.process
    own = [row for row in rows if key is not None and row.key and row.key[:2] == key[:2]]
    if not own or own[0].process is None:
        page.add(styled("this process has ended, or left the GPUs (Esc goes back)", "yellow"))
        return
    process, uses = own[0].process, [row.use for row in own if row.use is not None]
    end = len(page.lines) + room
    name = program_of(process.command, process.name) or "not visible here"
    page.add(styled(name, "bold") + styled(f"  pid {process.pid}", "dim"))
    for label, text in _facts(frame, own[0], uses):
        page.add_all(_labelled(label, text, frame.width))
    height = min(8, (end - len(page.lines)) // 3)
    if frame.state.graphs and height >= 2:
        _memory_graph(page, frame, process.pid, process.started, height)
    if frame.state.environment:
        _environment(page, frame, process.pid, end - len(page.lines))
    else:
        page.add(styled("e shows its environment, if it is yours", "dim"))


def _facts(frame: Frame, row: ProcessEntry, uses: list[ProcessRow]) -> list[tuple[str, str]]:
    process = row.process
    assert process is not None
    host = frame.scene.hosts.get(process.pid)
    cpu = UNKNOWN if host is None or host.cpu_percent is None else f"{fixed(host.cpu_percent)} %"
    memory = UNKNOWN if host is None or host.memory_bytes is None else human_bytes(
        host.memory_bytes)  # fmt: skip
    on = [
        f"GPU {use.entry.label}: "
        + (UNKNOWN if use.memory_bytes is None else human_bytes(use.memory_bytes))
        for use in uses
    ]
    began = process.started
    age = "" if began is None else elapsed(max(0.0, frame.scene.at - began)).plain
    found = (
        ("command", process.command or "not visible to you"),
        ("user", process.user or UNKNOWN),
        ("running", f"for {age}, since {_clock(began)}" if began else UNKNOWN),
        ("GPU memory", ", ".join(on) or UNKNOWN),
        ("host", f"CPU {cpu} · memory {memory}"),
        ("container", process.container or ""),
        ("job", process.job or ""),
        ("lease", process.lease or ""),
    )
    return [(label, text) for label, text in found if text]


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _labelled(label: str, text: str, width: int) -> list[Text]:
    lines = paragraph(text, max(20, width - 12), indent=0)[:3]
    heads = [label, *([""] * (len(lines) - 1))]
    return [styled(head.ljust(12), "dim") + line for head, line in zip(heads, lines, strict=True)]


def _memory_graph(page: Page, frame: Frame, pid: int, started: float | None, height: int) -> None:
    span, at = frame.state.span_seconds, frame.scene.at
    count = values_across(frame.width, frame.ascii_only)
    values = frame.histories.process_memory(pid, started, at, span, count)
    top = max((value for value in values if value is not None), default=1.0) * 1.1 or 1.0
    title = f"its GPU memory over {human_seconds(span)}, as far as top has recorded it"
    page.add(styled(title, "dim"))
    for text in line(values, frame.width, height, top, frame.ascii_only):
        page.add(styled(text, "cyan"))


def _environment(page: Page, frame: Frame, pid: int, room: int) -> None:
    seen = frame.scene.environment
    if seen is None or seen.pid != pid:
        page.add(styled("environment: being read…", "dim"))
    elif seen.reason is not None:
        page.add(styled(f"environment: {seen.reason}", "yellow"))
    else:
        page.add(styled("environment", "bold"))
        page.add_all(
            (styled(f"{name}=", "dim") + styled(value)).fit(frame.width)
            for name, value in seen.shown[: max(0, room - 3)]
        )
        others = ", ".join(seen.names)
        page.add_all(paragraph(f"by name only: {others}", frame.width, "dim"))
