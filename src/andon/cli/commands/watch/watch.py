"""`andon watch`: a line per device and sample, on the screen and in a file."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from itertools import chain, islice, repeat
from pathlib import Path

import click

from andon.cli.live_screen import LiveScreen, is_capable
from andon.cli.options import chosen, elsewhere, interval_option, shared, whole, with_devices
from andon.cli.outfile import LineFile
from andon.cli.screen import size
from andon.cli.show.csv_table import DEVICES, device_rows
from andon.cli.show.entries import only_visible as keep_visible
from andon.cli.show.watch import LiveTable, Stream
from andon.cli.sources import NO_DEVICE, exit_code, node_of, rulebook_of, settings_of
from andon.cli.terminal import Choices, Terminal, notice
from andon.errors import Invalid
from andon.model import wire
from andon.model.device import Snapshot
from andon.model.lamp import DeviceLamp
from andon.model.naming import chosen_uuids, only

FORMATS = ("table", "csv", "jsonl")

Lines = Callable[[Snapshot], list[str]]
Lamps = Callable[[Snapshot], tuple[DeviceLamp, ...]]


@click.command()
@with_devices()
@interval_option
@click.option("--count", "-n", type=whole, metavar="COUNT", help="Stop after COUNT samples.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="What the screen shows.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also append to FILE; .jsonl or .csv, else in --format.",
)
@click.option("--lines", is_flag=True, help="Print lines instead of redrawing, as in a pipe.")
@click.option("--only-visible", is_flag=True, help="Leave out devices hidden by a mask.")
@elsewhere
@shared
def watch(
    devices: list[str],
    interval: float | None,
    count: int | None,
    form: str,
    out: Path | None,
    lines: bool,
    only_visible: bool,
) -> int:
    """Show one line per device, live, until q or Ctrl-C.

    On a terminal the table is redrawn in place. In a pipe, or with --lines, each sample adds its
    lines. With --out the same samples are appended to a file, whole lines only: an incomplete
    last line from a crash is ended first, and a full disk is reported once while sampling
    continues. JSONL lines are andon.snapshot/1. The exit code is 3 if no device responded or
    slept in COUNT samples.
    """
    choices, wanted = chosen(), DeviceFilter(devices, only_visible)
    choices.interval_seconds = interval
    settings = settings_of(choices)
    with ExitStack() as stack:
        sinks = [] if out is None else [_file(out, form, stack)]
        if out is None or not choices.quiet:
            taken = out is not None and _by_name(out) is None  # the format is the file's
            sinks.append(_screen("table" if taken else form, choices, lines, stack))
        return _follow(choices, settings.interval_seconds, count, wanted, sinks)


class DeviceFilter:
    """The requested devices; a wrong name is reported at the first sample, and only then."""

    def __init__(self, names: list[str], only_visible: bool) -> None:
        self._names, self._only_visible = names, only_visible
        self._uuids: set[str] | None = None

    def of(self, snapshot: Snapshot) -> Snapshot:
        if self._names and self._uuids is None:
            self._uuids = chosen_uuids(snapshot, self._names)
        filtered = snapshot if self._uuids is None else only(snapshot, self._uuids)
        return keep_visible(filtered) if self._only_visible else filtered


def _follow(
    choices: Choices,
    interval: float,
    count: int | None,
    wanted: "DeviceFilter",
    sinks: list[Callable[[Snapshot], None]],
) -> int:
    """Follows until Ctrl-C, which is not a failure, or for COUNT samples."""
    code = 0
    session = node_of(choices).live.subscribe(interval, watching=True)
    with suppress(KeyboardInterrupt), session as snapshots:
        with suppress(KeyboardInterrupt):
            answered = _pour(map(wanted.of, islice(snapshots, count)), sinks)
            code = 0 if answered or count is None else NO_DEVICE
        if snapshots.dropped:
            notice(f"{snapshots.dropped} samples were dropped: the output was too slow", choices)
    return code


def _pour(snapshots: Iterable[Snapshot], sinks: list[Callable[[Snapshot], None]]) -> bool:
    """Passes the snapshots to the sinks; returns whether a device responded or slept in any."""
    answered = False
    for snapshot in snapshots:
        answered = answered or exit_code(snapshot) == 0
        for sink in sinks:
            sink(snapshot)
    return answered


def _screen(
    form: str, choices: Choices, lines_only: bool, stack: ExitStack
) -> Callable[[Snapshot], None]:
    terminal = Terminal.of(choices)
    if form == "table":
        book, lamps = rulebook_of(choices), node_of(choices).live.lamps
        if terminal.live and not lines_only and is_capable():
            screen, live = stack.enter_context(LiveScreen()), LiveTable(terminal.color, book)
            return lambda snapshot: screen.draw(
                live.frame(snapshot, *screen.size(), lamps(snapshot))
            )
        stream = Stream(terminal.width, terminal.height, terminal.color, book)
        return lambda snapshot: _show_tick(snapshot, stream, terminal, lamps)
    header, lines = _machine(form)
    heads = chain([header], repeat(""))
    return lambda snapshot: terminal.show_data(next(heads) + "".join(lines(snapshot)))


def _show_tick(snapshot: Snapshot, stream: Stream, terminal: Terminal, lamps: Lamps) -> None:
    """Prints one sample; the size is checked every time, because windows are resized."""
    stream.resize(*size())
    terminal.show(stream.tick(snapshot, lamps(snapshot)))


def _file(path: Path, form: str, stack: ExitStack) -> Callable[[Snapshot], None]:
    """Open the file before the first sample, so that a wrong one is reported first."""
    header, lines = _machine(_by_name(path) or form, path)
    file = LineFile(path, header, notice)
    file.open()
    stack.callback(file.close)

    def write(snapshot: Snapshot) -> None:
        for one in lines(snapshot):
            file.append(one)

    return write


def _by_name(path: Path) -> str | None:
    return {".jsonl": "jsonl", ".csv": "csv"}.get(path.suffix.lower())


def _machine(form: str, path: Path | None = None) -> tuple[str, Lines]:
    if form == "csv":
        return DEVICES.header, device_rows
    if form == "jsonl":
        return "", lambda snapshot: [wire.snapshot_line(snapshot) + "\n"]
    raise Invalid(
        f"{path}: the file name does not imply a format",
        hint="name it .jsonl or .csv, or: --format csv",
    )
