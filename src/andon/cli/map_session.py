"""Runs a map for the command line: reads the items, takes the devices, shows the progress."""

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from andon.app.runs import recording
from andon.cli.commands.runs.opened import finding
from andon.cli.commands.share.container_options import contained
from andon.cli.device_request import request_from, wait_seconds
from andon.cli.show.map import MapScreen, scaling_lines, summary_words, where
from andon.cli.show.waiting import WaitingLine
from andon.cli.sources import availability_of, sampling_ahead, settings_of
from andon.cli.terminal import Choices, Terminal, notice
from andon.drivers.shared.presence import signs
from andon.errors import Conflict, Gone, Invalid, Unavailable
from andon.leases.book.lease_book import Book
from andon.leases.granter import Granter, LeaseTerms
from andon.leases.placement import Placement
from andon.model.execution import ContainerOptions
from andon.model.redaction import redact
from andon.model.run.record import ItemState, RunKind, RunRow, RunState
from andon.runs.record import RunRecorder
from andon.runs.rules.matching import RunQuery
from andon.runs.rules.usage_words import report_words
from andon.sampling.sampler import Sampler
from andon.units import command_name, counted
from andon.work.map.blocks import FOLDER, BlockFolder
from andon.work.map.calls import CallEnd
from andon.work.map.commands import MapCommand
from andon.work.map.earlier import earlier_outcomes
from andon.work.map.places import CpuPlaces, LeasedPlaces, WorkPlaces
from andon.work.map.reading import files_as_items, items_in
from andon.work.map.session import ItemOutputs, MapRecord, MapResult, MapSession, handled_signals
from andon.work.preparing import find
from andon.work.rules.map.items import (
    DIGEST,
    RESUMES,
    MapItem,
    Redo,
    digest,
    left,
)
from andon.work.rules.map.plan import MapPlan, MapPolicy, MapUnit
from andon.work.rules.map.scaling import ScalingStep, step_of
from andon.work.rules.map.template import CommandTemplate, template_of

if TYPE_CHECKING:
    from andon.work.containers.running import ContainedCommand

Notify = Callable[[str], None]
INTERRUPTED, TERMINATED = 130, 143
MOST_MAPS_SEARCHED = 500
LAST = "last"
GPU_OPTIONS = ("memory", "shared", "model", "label", "devices")


class MapRequest(Struct, frozen=True):
    """What `andon map` was asked for, besides devices."""

    command: tuple[str, ...]
    files: tuple[str, ...]
    items_file: str | None
    null: bool
    jsonl: bool
    gpus: int | None
    gpus_per_worker: int
    per_gpu: int
    cpu: int | None
    bind: bool
    worker: bool
    per_call: int
    policy: MapPolicy
    item_timeout: float | None
    keep_order: bool
    resume: str | None
    redo: Redo
    scaling: tuple[int, ...]
    name: str | None
    folder: Path | None
    image: ContainerOptions | None = None

    @classmethod
    def of(
        cls,
        command: tuple[str, ...],
        folder: Path | None,
        asked: dict[str, Any],
        image: ContainerOptions | None = None,
    ) -> "MapRequest":
        own = {name: asked[name] for name in (
            "files", "items_file", "null", "jsonl", "gpus", "gpus_per_worker", "per_gpu", "cpu",
            "bind", "worker", "per_call", "item_timeout", "keep_order", "resume", "name",
        )}  # fmt: skip
        found = cls(
            command=command,
            policy=MapPolicy(asked["retries"], asked["max_failures"]),
            redo=Redo(asked["redo"] or Redo.UNDONE),
            scaling=asked["scaling"] or (),
            folder=folder,
            image=image,
            **own,
        )
        found._refuse_nonsense(asked)
        return found

    @property
    def title(self) -> str:
        return self.name or command_name(self.command)

    @property
    def digest(self) -> str:
        """Returns a digest that is the same for the same command in the same image."""
        return digest(self.command if self.image is None else (self.image.image, *self.command))

    def _refuse_nonsense(self, asked: dict[str, Any]) -> None:
        if self.files and self.items_file:
            raise Invalid("--files and --items cannot be combined")
        if self.jsonl and (self.files or self.null):
            raise Invalid("--jsonl reads lines: it cannot be combined with --files or -0")
        if self.worker and self.per_call > 1:
            raise Invalid("--worker gets one item at a time: leave --per-call out")
        if self.per_gpu > 1 and not (asked["shared"] and asked["memory"]):
            raise Invalid(
                "several workers on one GPU need to share its memory",
                hint=f"add --shared --memory SIZE, with what each of the {self.per_gpu} needs",
            )
        if self.per_gpu > 1 and self.gpus_per_worker > 1:
            raise Invalid("--per-gpu and --gpus-per-worker cannot be combined")
        if self.bind and self.cpu is not None:
            raise Invalid("--bind needs GPUs: the workers of --cpu have none")
        if self.scaling and self.resume:
            raise Invalid("--scaling works on all items: leave --resume out")


def run_map(choices: Choices, asked: MapRequest, devices: dict[str, Any]) -> int:
    """Runs the map and returns the exit code."""
    items = read_items(asked)
    template = template_of(asked.command, items, 1 if asked.worker else asked.per_call)
    inside = contained(asked.image, asked.command)
    if inside is None and "{" not in asked.command[0]:
        find(asked.command)
    params: dict[str, Any] = {DIGEST: asked.digest, "items": len(items)}
    if asked.resume:
        items, params[RESUMES] = left_of(asked, items)
        if not items:
            notice("nothing is left to do: all items have already succeeded", choices)
            return 0
        if (twice := sum(item.begun_before for item in items)) > 0:
            had = f"{counted(twice, 'item')} had begun before, when the map was killed"
            notice(f"{had}: begun again", choices)
    with sampling_ahead(choices) as sampler:
        if asked.bind:
            sampler.ask_places()
        maker = _Maker(choices, asked, devices, sampler, template, params, inside)
        try:
            return maker.measure(items) if asked.scaling else maker.work(items)
        finally:
            if inside is not None:
                inside.clean()


def refuse_options(asked: MapRequest, names: Sequence[str]) -> None:
    """Refuses options that only a map on this machine has."""
    wrong = [name for name in names if getattr(asked, name)]
    if wrong or asked.per_gpu > 1:
        option = (wrong or ["per-gpu"])[0]
        raise Invalid(f"--{option} is for a map on this machine", hint="leave out it or --on")


def read_items(asked: MapRequest) -> tuple[MapItem, ...]:
    """Reads the items; there is at least one."""
    if asked.files:
        items = files_as_items(asked.files)
    else:
        items = items_in(asked.items_file or "-", asked.jsonl, asked.null)
    if not items:
        raise Invalid("there are no items", hint="--files 'GLOB', --items FILE, or lines on stdin")
    return items


def left_of(asked: MapRequest, items: tuple[MapItem, ...]) -> tuple[tuple[MapItem, ...], str]:
    """Returns the unfinished items of an earlier map, and its id."""
    command = asked.digest
    with finding() as finder:
        if asked.resume == LAST:
            finder.refresh()
            row = _last_map(finder.index.find(RunQuery(limit=MOST_MAPS_SEARCHED)), command)
        else:
            row = finder.resolve(asked.resume or LAST)
        if row.state is RunState.RUNNING:
            raise Conflict(f"run {row.id} is still running", hint=f"andon runs tail -f {row.id}")
        before = earlier_outcomes(row, command, finder.resolve)
    before |= _shared_outcomes(row)
    return left(items, before, asked.redo), row.id


def _shared_outcomes(row: RunRow) -> dict[int, tuple[str, ItemState]]:
    """Returns what the workers of a map on a cluster have done; they outlive whoever collects."""
    folder = BlockFolder(Path(str(row.params.get(FOLDER))))
    if FOLDER not in row.params or not folder.path.is_dir():
        return {}
    if folder.is_alive() and not folder.is_over(folder.plan()):
        raise Conflict(
            f"the workers of run {row.id} are still at work",
            hint="wait for them, or cancel them: andon jobs lists them",
        )
    return folder.outcomes()


def _last_map(rows: Sequence[RunRow], command: str) -> RunRow:
    for row in rows:
        if row.kind is RunKind.MAP and row.params.get(DIGEST) == command:
            return row
    raise Gone("no earlier map had this command", hint="andon runs lists them")


class _Maker(Struct, frozen=True):
    """Makes sessions, one for a map and several for --scaling."""

    choices: Choices
    asked: MapRequest
    devices: dict[str, Any]
    sampler: Sampler
    template: CommandTemplate
    params: dict[str, Any]
    inside: "ContainedCommand | None" = None

    def work(self, items: Sequence[MapItem]) -> int:
        screen = MapScreen(self.choices, self.asked.keep_order)
        screen.expect([item.index for item in items])
        session = self._session(items, self._places(None), screen, screen.say)
        with handled_signals(session, screen.say) as received:
            result = session.run(screen.tick)
        self._say(result)
        if received:
            return _ended_by(received[0])
        progress = result.progress
        return 0 if progress.done == progress.total else 1

    def measure(self, items: Sequence[MapItem]) -> int:
        """Runs the same items with each number of workers."""
        steps: list[ScalingStep] = []
        failed = 0
        for workers in self.asked.scaling:
            screen = MapScreen(self.choices, False)
            session = self._session(items, self._places(workers), _Silent(screen), screen.say)
            with handled_signals(session, screen.say) as received:
                result = session.run(screen.tick)
            if received:
                return _ended_by(received[0])
            had = len(result.used) if self.asked.cpu is None else workers
            if had < workers:
                raise Unavailable(
                    f"only {had} of {workers} workers got a GPU, so nothing can be compared",
                    hint="andon free says which are available",
                )
            progress, end = result.progress, result.end
            failed += progress.failed
            steps.append(step_of(workers, progress.done, progress.seconds, end.summary, end.node))
        terminal = Terminal.of(self.choices)
        for line in scaling_lines(steps):
            terminal.say(line)
        return 1 if failed else 0

    def _session(
        self,
        items: Sequence[MapItem],
        places: WorkPlaces,
        outputs: ItemOutputs,
        notify: Notify,
    ) -> MapSession:
        settings = settings_of(self.choices)
        image = self.asked.image
        record = MapRecord(
            self.asked.title,
            self.asked.command,
            recording(settings, self.sampler, notify, self.asked.folder),
            self.params,
            None if image is None else image.image,
        )

        def opened(found: Sequence[Placement]) -> RunRecorder:
            recorder = record.open(found)
            labels = where([place.label for place in found])
            more = f", up to {places.most}" if places.most > len(found) else ""
            what = "1 item" if len(items) == 1 else f"{len(items)} items"
            simulated = "simulated " if recorder.begin.simulated and found[0].devices else ""
            notify(f"{what} on {simulated}{labels}{more} (run {recorder.begin.id})")
            return recorder

        inside = self.inside
        command = MapCommand(
            self.template,
            settings.work_grace_seconds,
            notify,
            self.asked.worker,
            self.asked.item_timeout,
            self.asked.bind,
            None if inside is None else (inside.engine, inside.options),
        )
        plan = MapPlan(items, self.asked.policy, self.asked.per_call)
        return MapSession(plan, places, opened, command.caller, outputs, notify)

    def _places(self, workers: int | None) -> WorkPlaces:
        asked = self.asked
        if asked.cpu is not None:
            return CpuPlaces(workers or asked.cpu)
        request = request_from({**self.devices, "gpus": asked.gpus_per_worker, "unbalanced": False})
        most = settings_of(self.choices).map_gpus
        if asked.gpus is not None:
            most = min(most, asked.gpus)
        if workers is not None:
            most = workers * asked.gpus_per_worker
        if most < asked.gpus_per_worker:
            raise Invalid(
                f"a worker needs {asked.gpus_per_worker} GPUs, but the map may have {most}",
                hint="use a larger --gpus, or raise the setting map.gpus",
            )
        line = WaitingLine(self.choices)
        availability = availability_of(self.choices, self.sampler)
        terms = LeaseTerms(command=f"map: {redact(asked.command)}")
        found = LeasedPlaces(
            availability,
            replace(request, balanced=False) if asked.gpus_per_worker == 1 else request,
            lambda *asking: Granter(Book(), availability).grant(asking[0], terms, *asking[1:]),
            most,
            asked.per_gpu,
            wait_seconds(self.devices),
            line,
        )
        try:
            _ = found.most
        except Unavailable as error:
            if self._wants_gpu() or not self._has_no_gpu():
                raise Unavailable(error.reason, hint=_without_gpu(error.hint)) from error
            count = f"{workers} workers" if workers not in (None, 1) else "1 worker"
            notice(f"{error.reason}: {count} on the CPU instead; --cpu N for N", self.choices)
            return CpuPlaces(workers or 1)
        return found

    def _wants_gpu(self) -> bool:
        """Whether an option was given that only makes sense with a GPU."""
        asked = self.asked
        named = any(self.devices.get(name) for name in GPU_OPTIONS)
        return named or asked.bind or asked.gpus is not None or asked.gpus_per_worker > 1

    def _has_no_gpu(self) -> bool:
        """Whether the node has no GPU at all; one whose driver fails counts as a GPU, so that
        work does not start without it."""
        return not signs(Path(settings_of(self.choices).root))

    def _say(self, result: MapResult) -> None:
        text = summary_words(result)
        name = self.asked.title
        more = f"; {report_words(name, result.run)}" if result.path else ""
        notice(f"{text}{more}", self.choices)
        if result.progress.done < result.progress.total:
            notice(f"to continue: the same command with --resume {result.run}", self.choices)


def _without_gpu(hint: str) -> str:
    more = "andon map --cpu 4 works without a GPU"
    return f"{hint}; {more}" if hint else more


class _Silent(Struct):
    """Output for --scaling: what items write is hidden, only failures are shown."""

    screen: MapScreen

    def ended(self, unit: MapUnit, end: CallEnd, state: ItemState) -> None:
        if state is not ItemState.OK:
            self.screen.ended(unit, replace(end, output=None, errors=None), state)

    def close(self) -> None:
        self.screen.close()


def _ended_by(number: int) -> int:
    return INTERRUPTED if number == signal.SIGINT else TERMINATED
