"""Runs a map for the command line, here or on a cluster: reads the items, shows the progress."""

import signal
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from andon.app.runs import recording
from andon.cli.commands.runs.opened import finding
from andon.cli.commands.share.container_options import contained
from andon.cli.map_pools import ClusterPools, LocalPools
from andon.cli.map_request import MapRequest, read_items
from andon.cli.show.map import MapScreen, scaling_lines, summary_text
from andon.cli.sources import sampling_ahead, settings_of
from andon.cli.terminal import INTERRUPTED, Choices, Terminal, notice
from andon.errors import Conflict, Gone, Invalid, Unavailable
from andon.jobs.clusters.desk import ClusterDesk
from andon.leases.placement import Placement
from andon.model.run.record import ItemState, RunKind, RunRow, RunState
from andon.runs.record import RunRecorder
from andon.runs.rules.matching import RunQuery
from andon.runs.rules.usage_text import report_text
from andon.sampling.sampler import Sampler
from andon.units import counted
from andon.work.map.calls import CallEnd
from andon.work.map.earlier import earlier_outcomes
from andon.work.map.pool import Notify
from andon.work.map.session import ItemOutputs, MapRecord, MapResult, MapSession, handled_signals
from andon.work.preparing import find
from andon.work.rules.map.items import DIGEST, RESUMES, MapItem, left
from andon.work.rules.map.plan import MapPlan, MapUnit
from andon.work.rules.map.scaling import ScalingStep, step_of
from andon.work.rules.map.template import template_of

TERMINATED = 143
MOST_MAPS_SEARCHED = 500
LAST = "last"


def run_map(
    choices: Choices,
    request: MapRequest,
    devices: dict[str, Any],
    cluster: ClusterDesk | None,
    options: Sequence[str],
) -> int:
    """Runs the map, here or on a cluster, and returns the exit code."""
    items = read_items(request)
    template = template_of(request.command, items, 1 if request.worker else request.per_call)
    if cluster is not None:
        there = ClusterPools(choices, cluster, request, devices, template, tuple(options))
        return _run(choices, request, items, there)
    inside = contained(request.image, request.command)
    if inside is None and "{" not in request.command[0]:
        find(request.command)
    try:
        return _run(
            choices, request, items, LocalPools(choices, request, devices, template, inside)
        )
    finally:
        if inside is not None:
            inside.clean()


def _run(
    choices: Choices,
    request: MapRequest,
    items: tuple[MapItem, ...],
    pools: LocalPools | ClusterPools,
) -> int:
    params: dict[str, Any] = {DIGEST: request.digest, "items": len(items)}
    if request.resume:
        items, params[RESUMES] = left_of(request, items)
        if not items:
            notice("nothing is left to do: all items have already succeeded", choices)
            return 0
        if (twice := sum(item.begun_before for item in items)) > 0:
            had = f"{counted(twice, 'item')} had begun before, when the map was killed"
            notice(f"{had}: begun again", choices)
    with sampling_ahead(choices) as sampler:
        if request.bind:
            sampler.ask_places()
        maker = _Maker(choices, request, pools, sampler, params)
        return maker.measure(items) if request.scaling else maker.work(items)


def left_of(request: MapRequest, items: tuple[MapItem, ...]) -> tuple[tuple[MapItem, ...], str]:
    """Returns the unfinished items of an earlier map, and its id."""
    command = request.digest
    with finding() as finder:
        if request.resume == LAST:
            finder.refresh()
            row = _last_map(finder.index.find(RunQuery(limit=MOST_MAPS_SEARCHED)), command)
        else:
            row = finder.resolve(request.resume or LAST)
        if row.state is RunState.RUNNING:
            raise Conflict(f"run {row.id} is still running", hint=f"andon runs tail -f {row.id}")
        before = earlier_outcomes(row, command, finder.resolve)
    return left(items, before, request.redo), row.id


def _last_map(rows: Sequence[RunRow], command: str) -> RunRow:
    for row in rows:
        if row.kind is RunKind.MAP and row.params.get(DIGEST) == command:
            return row
    raise Gone("no earlier map had this command", hint="andon runs lists them")


class _Maker(Struct, frozen=True):
    """Makes sessions, one for a map and several for --scaling."""

    choices: Choices
    request: MapRequest
    pools: LocalPools | ClusterPools
    sampler: Sampler
    params: dict[str, Any]

    def work(self, items: Sequence[MapItem]) -> int:
        screen = MapScreen(self.choices, self.request.keep_order)
        screen.expect([item.index for item in items])
        session = self._session(items, None, screen, screen.print_line)
        with handled_signals(session, screen.print_line) as received:
            result = session.run(screen.tick)
        self._report(result)
        if received:
            return _ended_by(received[0])
        progress = result.progress
        return 0 if progress.done == progress.total else 1

    def measure(self, items: Sequence[MapItem]) -> int:
        """Runs the same items with each number of workers."""
        calls = len(MapPlan(items, self.request.policy, self.request.per_call).units)
        if calls < (most := max(self.request.scaling)):
            raise Invalid(
                f"{counted(calls, 'call')} cannot keep {most} workers busy",
                hint="give more items, or smaller numbers to --scaling",
            )
        steps: list[ScalingStep] = []
        failed = 0
        for workers in self.request.scaling:
            screen = MapScreen(self.choices, False)
            session = self._session(items, workers, _Silent(screen), screen.print_line)
            with handled_signals(session, screen.print_line) as received:
                result = session.run(screen.tick)
            if received:
                return _ended_by(received[0])
            had = len(result.used) if self.request.cpu is None else workers
            if had < workers:
                raise Unavailable(
                    f"only {had} of {workers} workers got a GPU, so nothing can be compared",
                    hint="andon free says which are available",
                )
            progress, end = result.progress, result.end
            failed += progress.failed
            steps.append(step_of(workers, progress.done, progress.seconds, end.summary, end.node))
        terminal = Terminal.of(self.choices)
        terminal.print(*scaling_lines(steps))
        return 1 if failed else 0

    def _session(
        self, items: Sequence[MapItem], workers: int | None, outputs: ItemOutputs, notify: Notify
    ) -> MapSession:
        request, image = self.request, self.request.image
        plan = MapPlan(items, request.policy, request.per_call)
        pool = self.pools.pool(plan, workers, self.sampler, notify)
        record = MapRecord(
            request.title,
            request.command,
            recording(settings_of(self.choices), self.sampler, notify, request.folder),
            {**self.params, **pool.params},
            None if image is None else image.image,
            pool.unsampled,
        )

        def opened(found: Sequence[Placement]) -> RunRecorder:
            recorder = record.open(found)
            if found:  # workers that take their own devices report them themselves
                on = self.pools.where(pool, found, recorder)
                notify(f"{counted(len(items), 'item')} on {on} (run {recorder.begin.id})")
            return recorder

        return MapSession(plan, pool, opened, outputs)

    def _report(self, result: MapResult) -> None:
        text = summary_text(result)
        name = self.request.title
        more = f"; {report_text(name, result.run)}" if result.path else ""
        notice(f"{text}{more}", self.choices)
        if result.progress.done < result.progress.total:
            notice(f"to continue: the same command with --resume {result.run}", self.choices)


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
