"""What `andon submit --dry-run` would queue: one job in lines, several as a table."""

from collections.abc import Sequence

from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import UNKNOWN, Text, say
from andon.jobs.rules.views import count_text
from andon.model.job.spec import JobSpec
from andon.model.redaction import is_secret_name, redact
from andon.units import human_bytes


def render_dry(jobs: Sequence[Sequence[JobSpec]], width: int) -> list[Text]:
    """Each of `jobs` is one job, or an array."""
    total = sum(map(len, jobs))
    head = say(f"would queue {total} job{'s' * (total != 1)}", "bold")
    firsts = [specs[0] for specs in jobs]
    if len(jobs) == 1:
        return [head + say(f": {firsts[0].name}"), *_lines(firsts[0])]
    names = [name for name in _varied(firsts) if not is_secret_name(name)]
    columns: list[TableColumn[Sequence[JobSpec]]] = [
        TableColumn("NAME", lambda specs: say(specs[0].name), lead=True, elastic=8),
        TableColumn("JOBS", lambda specs: say(str(len(specs))), rank=2, right=True),
        TableColumn("GPUS", lambda specs: say(count_text(specs[0].request)), rank=1, right=True),
        TableColumn("MEMORY", lambda specs: say(_memory(specs[0])), rank=1, right=True),
        *(_param_column(name) for name in names),
        TableColumn("COMMAND", lambda specs: say(redact(specs[0].argv)), rank=3, elastic=12),
    ]
    if all(len(specs) == 1 for specs in jobs):
        del columns[1]
    return [head, *draw(columns, [TableRow(specs) for specs in jobs], width)]


def _param_column(name: str) -> TableColumn[Sequence[JobSpec]]:
    return TableColumn(
        name, lambda specs: say(str(specs[0].params.get(name, UNKNOWN))), rank=2, right=True
    )


def _varied(specs: Sequence[JobSpec]) -> list[str]:
    """The parameters in which they differ."""
    names = dict.fromkeys(name for spec in specs for name in spec.params)
    return [name for name in names if len({repr(spec.params.get(name)) for spec in specs}) > 1]


def _memory(spec: JobSpec) -> str:
    asked = spec.request.memory_bytes
    return UNKNOWN if asked is None else human_bytes(asked)


def _lines(spec: JobSpec) -> list[Text]:
    count = count_text(spec.request)
    kind = ("simulated GPU" if spec.simulate is not None else "GPU") + ("" if count == "1" else "s")
    asked = spec.request.memory_bytes
    memory = "" if asked is None else f" with {human_bytes(asked)}"
    return [
        say("  command  ", "dim") + say(redact(spec.argv)),
        say("  folder   ", "dim") + say(spec.folder),
        say("  asks for ", "dim") + say(f"{count} {kind}{memory}"),
    ]
