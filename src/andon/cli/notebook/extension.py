"""The IPython extension: `%andon` shows what a command shows, `%%andon` records a cell."""

import ast
import io
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from typing import Any

from andon.api.lease import lease
from andon.api.run import RecordedRun
from andon.api.watch import watch
from andon.cli.main import run
from andon.cli.notebook.painted import Painted
from andon.cli.show.render import render_status
from andon.cli.show.reports.as_text import document_text
from andon.cli.show.reports.run_comparison import comparison_document
from andon.cli.show.reports.run_report import run_document
from andon.cli.show.runs.listing import render_runs
from andon.cli.show.text import painted
from andon.errors import AndonError, Invalid
from andon.runs.rules.reports.advice import advice_on
from andon.runs.rules.usage_text import cell_texts
from andon.units import parse_seconds, shell_line

WIDTH = 118
FOR_TERMINALS = frozenset(
    (
        "agent", "demo", "exporter", "hub", "kill", "lease", "map", "open", "probe", "run",
        "selftest", "serve", "setup", "top", "wait",
    )
)  # fmt: skip
"""Commands that ask, or go on for long, or start others."""
CELL_USAGE = "%%andon [--gpus N] [--memory SIZE] [NAME]"


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext andon`."""
    magics = AndonMagics(shell)
    shell.register_magic_function(magics.line, "line", "andon")
    shell.register_magic_function(magics.cell, "cell", "andon")
    shell.events.register("post_run_cell", magics.cell_ended)
    for (module, name), paint in FORMATTERS.items():
        for kind, form in (("text/html", _html_of), ("text/plain", _text_of)):
            formatter = shell.display_formatter.formatters[kind]
            formatter.for_type_by_name(module, name, form(paint))


class AndonMagics:
    """The two magics, and in which cell CUDA was initialised."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._cuda_cell: int | None = None

    def line(self, line: str) -> Painted | None:
        """`%andon [COMMAND]`: what the command prints; `%andon watch [10s]` repaints in place."""
        arguments = _split(line)
        if arguments[:1] == ["watch"]:
            _watch(arguments[1:])
            return None
        return Painted(lambda: command_text(arguments))

    def cell(self, line: str, cell: str) -> Any:
        """`%%andon NAME`: records the cell as a run, and says under its output what it used."""
        name, request = _cell_arguments(_split(line))

        with self._leased(request):
            run = RecordedRun(name or "cell", quiet=True)
            run.begin()
            try:
                return self._run(cell)
            finally:
                run.end(sys.exc_info()[1])
                _show(_used(run))

    def cell_ended(self, result: Any = None) -> None:
        """Remembers the cell after which CUDA was initialised."""
        if self._cuda_cell is None and _cuda_initialised():
            self._cuda_cell = self._shell.execution_count - 1

    def _run(self, cell: str) -> Any:
        """Runs the cell as IPython does; its last expression is its value."""
        tree = ast.parse(self._shell.transform_cell(cell), "<andon cell>")
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        space = self._shell.user_ns
        exec(compile(tree, "<andon cell>", "exec"), space)  # noqa: S102 - the cell of the user
        if last is None:
            return None
        return eval(compile(ast.Expression(last.value), "<andon cell>", "eval"), space)  # noqa: S307

    @contextmanager
    def _leased(self, request: dict[str, Any]) -> Iterator[None]:
        if not request:
            yield
            return

        if _cuda_initialised():
            known = f" in cell [{self._cuda_cell}]" if self._cuda_cell is not None else ""
            print(
                f"andon: CUDA was initialised{known} before: this process keeps the devices that "
                "it sees. Restart the kernel and run this cell first.",
                file=sys.stderr,
            )
        before = dict(os.environ)
        with lease(simulated=bool(os.environ.get("ANDON_SIMULATE")), **request) as held:
            os.environ.update(held.environment)
            try:
                yield
            finally:
                for name in held.environment:
                    os.environ.pop(name, None)
                    if name in before:
                        os.environ[name] = before[name]


def command_text(arguments: list[str]) -> str:
    """Returns what a command prints, with colours; its errors are text too."""
    if arguments and arguments[0] in FOR_TERMINALS:
        return f"andon {arguments[0]} is for a terminal: !andon {shell_line(*arguments)}\n"
    out, error = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(error):
        run([*(arguments or ["status"]), "--color", "always", "--quiet"])
    return out.getvalue() + error.getvalue()


def _watch(arguments: list[str]) -> None:
    """Repaints the status in place, once a second, until the cell is interrupted or time is up."""
    from IPython.display import display

    try:
        until = time.monotonic() + parse_seconds(arguments[0]) if arguments else None
    except ValueError as error:
        raise Invalid(f"{arguments[0]!r} is not a time", hint="%andon watch 10s") from error
    shown = display(Painted(""), display_id=True)
    try:
        with watch() as snapshots:
            for snapshot in snapshots:
                shown.update(Painted(partial(_snapshot, snapshot)))
                if until is not None and time.monotonic() >= until:
                    return
    except KeyboardInterrupt:
        return


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise Invalid("a quotation mark is missing", hint="%andon help") from error


def _cell_arguments(arguments: list[str]) -> tuple[str | None, dict[str, Any]]:
    name, request = None, dict[str, Any]()
    rest = iter(arguments)
    for word in rest:
        if word in ("--gpus", "--memory"):
            value = next(rest, "")
            request[word[2:]] = int(value) if value.isdecimal() else value
        elif name is None and not word.startswith("-"):
            name = word
        else:
            raise Invalid(f"{word!r} is not understood", hint=CELL_USAGE)
    return name, request


def _used(run: RecordedRun) -> str:
    """Returns a line for each device: `GPU 1 · 3 min 12 s busy of 3 min 40 s · peak …`."""
    recorder = run.recorder
    if recorder is None or recorder.ended is None:
        return ""
    return "\n".join(cell_texts(recorder.begin, recorder.ended))


def _show(text: str) -> None:
    from IPython.display import display

    display(Painted(text))


def _cuda_initialised() -> bool:
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda is not None and bool(cuda.is_initialized())


# How values of the Python API are shown: by the tables of the commands.


def _snapshot(value: Any) -> str:
    return painted(render_status(value, WIDTH, time.time()), color=True)


def _held(value: Any) -> str:
    until = (
        "" if value.until is None else time.strftime(", until %H:%M", time.localtime(value.until))
    )
    state = value.why_ended or f"in force{until}"
    return f"lease {value.id}: GPU {', '.join(map(str, value.indices))}, {state}\n"


def _job(value: Any) -> str:
    try:
        return f"job {value.label}: {value.state.text}\n"
    except AndonError as error:
        return f"job {value.label}: {error.reason}\n"


def _run(value: Any) -> str:
    return command_text(["runs", "show", value.id]) if value.id else "a run that has not begun\n"


def _row(value: Any) -> str:
    return painted(render_runs([value], time.time(), WIDTH), color=True)


def _report(value: Any) -> str:
    return painted(document_text(run_document(value, advice_on(value)), WIDTH), color=True)


def _comparison(value: Any) -> str:
    return painted(document_text(comparison_document(value, {}), WIDTH), color=True)


FORMATTERS: dict[tuple[str, str], Callable[[Any], str]] = {
    ("andon.model.device", "Snapshot"): _snapshot,
    ("andon.api.lease", "Held"): _held,
    ("andon.api.submit", "SubmittedJob"): _job,
    ("andon.api.run", "RecordedRun"): _run,
    ("andon.model.run.record", "RunRow"): _row,
    ("andon.runs.rules.reports.report", "RunReport"): _report,
    ("andon.runs.rules.reports.compare", "RunComparison"): _comparison,
}


def _html_of(paint: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: Painted(partial(paint, value))._repr_html_()


def _text_of(paint: Callable[[Any], str]) -> Callable[[Any, Any, bool], None]:
    return lambda value, printer, cycle: printer.text(repr(Painted(partial(paint, value))))
