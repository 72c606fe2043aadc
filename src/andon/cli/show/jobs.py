"""The list of jobs as a table, one job in lines, and what `andon submit --dry-run` would queue."""

import time
from collections.abc import Sequence

from andon.cli.show.runs.cells import length, moment
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import UNKNOWN, Text, styled
from andon.jobs.rules.views import count_text
from andon.model.job.facts import JobState, JobView
from andon.model.job.spec import JobSpec
from andon.model.redaction import is_secret_name, redact
from andon.units import counted, human_bytes, human_seconds, measured_seconds

STYLES = {
    JobState.RUNNING: "bold green",
    JobState.WAITING: "cyan",
    JobState.LATER: "cyan",
    JobState.HELD: "yellow",
    JobState.SUCCEEDED: "",
    JobState.CANCELLED: "yellow",
    JobState.LOST: "yellow",
    JobState.UNKNOWN: "dim",
}
DAY_SECONDS = 86_400.0


def render_jobs(views: Sequence[JobView], now: float, width: int) -> list[Text]:
    """One line per job."""
    least = 20 if any(view.simulated for view in views) else 8  # the mark must not be cut
    several = len({view.user for view in views}) > 1
    mixed = any(view.engine is not None for view in views)
    columns = _columns(now, least, several, mixed)
    return draw(columns, [TableRow(view) for view in views], width)


def _columns(
    now: float, least: int, several: bool, mixed: bool
) -> tuple[TableColumn[JobView], ...]:
    """Returns the columns; with jobs of clusters too (`mixed`) they say where each one is."""
    user: TableColumn[JobView] = TableColumn("USER", lambda view: styled(view.user), elastic=6)
    place: tuple[TableColumn[JobView], ...] = (TableColumn("GPU", _devices, rank=1),)
    if mixed:
        place = (
            TableColumn("WHERE", _where, rank=1, elastic=10),
            TableColumn("GPUS", lambda view: styled(view.gpus or UNKNOWN), rank=1),
        )
    return (
        TableColumn("JOB", lambda view: styled(view.label), lead=True, right=not mixed),
        *([user] if several else ()),
        TableColumn("NAME", _name, elastic=least),
        TableColumn("STATE", lambda view: styled(view.state.text, STYLES.get(view.state, "red"))),
        *place,
        TableColumn("TIME", lambda view: _took(view, now), rank=1, right=True),
        TableColumn("WHY", lambda view: styled(why(view, now)), rank=2, elastic=12),
    )


def _name(view: JobView) -> Text:
    mark = styled("SIMULATED ", "reverse") if view.simulated else Text()
    given = "".join(f" {name}={value}" for name, value in view.params.items())
    return mark + styled(view.name) + (styled(given, "dim") if view.group else Text())


def _devices(view: JobView) -> Text:
    """Returns the job's devices; for a waiting job, how many it asks for."""
    if view.devices and view.state is not JobState.WAITING:
        return styled(",".join(view.devices))
    return styled(f"({view.gpus})", "dim")


def _where(view: JobView) -> Text:
    """Returns the node and its devices: `n1 GPU 2`, `here GPU 3`."""
    if view.engine is not None:
        return styled(view.where or UNKNOWN)
    shown = view.devices and view.state is not JobState.WAITING
    return styled(f"here GPU {','.join(view.devices)}" if shown else "here")


def _took(view: JobView, now: float) -> Text:
    """Returns how long the job runs, ran, or has waited; nothing if it ended without starting."""
    if view.state is JobState.RUNNING and view.started is not None:
        return length(max(0.0, now - view.started))
    if view.seconds is not None or view.state.is_settled:
        return length(view.seconds)
    return styled(human_seconds(max(0.0, now - view.submitted_at)), "dim")


def why(view: JobView, now: float) -> str:
    """Returns why a job waits, its position and expected start; for a running job, its progress."""
    parts = [] if view.progress is None else [view.progress.text(now)]
    if view.state is JobState.WAITING and view.position is not None:
        parts.append(f"no. {view.position}")
    if view.state is JobState.LATER and view.begin_at is not None:
        return f"begins {moment(view.begin_at, now)}"
    if view.reason:
        parts.append(view.reason)
    if view.expected_start is not None:
        parts.append(expected_text(view, now))
    return ": ".join(parts[:2]) + "".join(f"; {more}" for more in parts[2:])


def expected_text(view: JobView, now: float) -> str:
    """Returns `expected about 14:20, from 6 runs`."""
    if view.expected_start is None:
        return ""
    form = "%H:%M" if abs(view.expected_start - now) < DAY_SECONDS else "%a %d %b %H:%M"
    at = time.strftime(form, time.localtime(max(view.expected_start, now)))
    many = "" if not view.expected_from else f", from {counted(view.expected_from, 'run')}"
    return f"expected about {at}{many}"


def render_job(view: JobView, now: float) -> list[Text]:
    """Everything about one job."""
    mark = styled("SIMULATED ", "reverse") if view.simulated else Text()
    head = mark + styled(f"job {view.label}", "bold") + styled(f"  {view.name}  ")
    lines = [head + styled(view.state.text, STYLES.get(view.state, "red"))]
    lines += [
        styled(f"  {name:<10}", "dim") + styled(value) for name, value in _facts(view, now) if value
    ]
    lines += [styled(f"    {line}", "dim") for line in view.waiting_details]
    return lines


def _facts(view: JobView, now: float) -> list[tuple[str, str]]:
    from andon.model.naming import title  # not for the list, which must be quick

    request = f"{view.gpus} GPU{'' if view.gpus == '1' else 's'}" if view.gpus else ""
    if view.memory_bytes is not None:
        request += f" with {human_bytes(view.memory_bytes)}"
    took = "" if view.seconds is None else measured_seconds(view.seconds)
    code = "" if view.exit_code is None else f"exit code {view.exit_code}"
    others = ", ".join(str(number) for number in (*view.after, *view.after_any))
    return [
        ("command", view.command),
        ("folder", view.folder),
        ("asks for", request),
        ("why" if view.progress is None else "progress", why(view, now)),
        ("after", others),
        ("submitted", f"{moment(view.submitted_at, now)} by {view.user}"),
        ("began", "" if view.started is None else moment(view.started, now)),
        ("ended", "" if view.ended is None else f"{moment(view.ended, now)} {code}".strip()),
        ("took", took),
        ("limit", "" if view.for_seconds is None else human_seconds(view.for_seconds)),
        ("attempt", str(view.attempt) if view.attempt > 1 else ""),
        ("on", view.where or (title(", ".join(view.devices)) if view.devices else "")),
        ("lease", view.lease or ""),
        ("run", view.run or ""),
        ("record", view.record or ""),
        ("tags", " ".join(view.tags)),
        ("group", view.group or ""),
        ("params", "  ".join(f"{name}={value}" for name, value in view.params.items())),
        *((name, value) for name, value in view.environment.items()),
    ]


def render_dry(jobs: Sequence[Sequence[JobSpec]], width: int) -> list[Text]:
    """Each of `jobs` is one job, or an array."""
    total = sum(map(len, jobs))
    head = styled(f"would queue {counted(total, 'job')}", "bold")
    firsts = [specs[0] for specs in jobs]
    if len(jobs) == 1:
        return [head + styled(f": {firsts[0].name}"), *_lines(firsts[0])]
    names = [name for name in _varied(firsts) if not is_secret_name(name)]
    columns: list[TableColumn[Sequence[JobSpec]]] = [
        TableColumn("NAME", lambda specs: styled(specs[0].name), lead=True, elastic=8),
        TableColumn("JOBS", lambda specs: styled(str(len(specs))), rank=2, right=True),
        TableColumn("GPUS", lambda specs: styled(count_text(specs[0].request)), rank=1, right=True),
        TableColumn("MEMORY", lambda specs: styled(_memory(specs[0])), rank=1, right=True),
        *(_param_column(name) for name in names),
        TableColumn("COMMAND", lambda specs: styled(redact(specs[0].argv)), rank=3, elastic=12),
    ]
    if all(len(specs) == 1 for specs in jobs):
        del columns[1]
    return [head, *draw(columns, [TableRow(specs) for specs in jobs], width)]


def _param_column(name: str) -> TableColumn[Sequence[JobSpec]]:
    return TableColumn(
        name, lambda specs: styled(str(specs[0].params.get(name, UNKNOWN))), rank=2, right=True
    )


def _varied(specs: Sequence[JobSpec]) -> list[str]:
    """Returns the parameters in which the jobs differ."""
    names = dict.fromkeys(name for spec in specs for name in spec.params)
    return [name for name in names if len({repr(spec.params.get(name)) for spec in specs}) > 1]


def _memory(spec: JobSpec) -> str:
    requested = spec.request.memory_bytes
    return UNKNOWN if requested is None else human_bytes(requested)


def _lines(spec: JobSpec) -> list[Text]:
    count = count_text(spec.request)
    kind = ("simulated GPU" if spec.simulate is not None else "GPU") + ("" if count == "1" else "s")
    requested = spec.request.memory_bytes
    memory = "" if requested is None else f" with {human_bytes(requested)}"
    return [
        styled("  command  ", "dim") + styled(redact(spec.argv)),
        styled("  folder   ", "dim") + styled(spec.folder),
        styled("  asks for ", "dim") + styled(f"{count} {kind}{memory}"),
    ]
