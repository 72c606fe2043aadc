"""`andon map --on NAME` where jobs see our files: an array of workers that share the items.

What they write is collected here: printed, counted, and recorded as one run, of which the workers'
runs are the ranks. The workers need nobody to go on: a map whose collector was killed is resumed.
"""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from andon.app.runs import recording
from andon.cli.device_request import request_from
from andon.cli.map_session import MapRequest, left_of, read_items, refuse_options
from andon.cli.show.map import scaling_lines
from andon.cli.sources import sampling, settings_of
from andon.cli.terminal import INTERRUPTED, Choices, Terminal, notice
from andon.errors import AndonError
from andon.host.interpreter import module_environment, process_command
from andon.jobs.clusters.desk import ClusterDesk
from andon.jobs.rules.able import refuse
from andon.jobs.rules.polling import FRESH_SECONDS
from andon.jobs.submitting import here_spec, new_submission
from andon.leases.placement import Placement
from andon.model.job.desk import JobAct
from andon.model.run.record import ItemState, RunItem, RunState
from andon.runs.record import RunOutcome, RunRecorder
from andon.runs.rules.ranks import run_variables
from andon.runs.rules.usage_words import report_words
from andon.units import measured_seconds
from andon.work.map.blocks import FOLDER, BlockFolder, CallResult, SharedPlan, block_size
from andon.work.map.session import MapRecord
from andon.work.rules.map.items import DIGEST, RESUMES, MapItem
from andon.work.rules.map.scaling import ScalingStep
from andon.work.rules.map.template import template_of

MOST_WORKERS = 1000
POLL_SECONDS = 0.3
REFUSED = ("worker", "cpu", "bind", "image")


def map_in_blocks(
    choices: Choices,
    cluster: ClusterDesk,
    shared: Path,
    asked: MapRequest,
    devices: dict[str, Any],
    options: Sequence[str],
) -> int:
    """Runs the map and returns the exit code."""
    refuse_options(asked, REFUSED)
    items = read_items(asked)
    template = template_of(asked.command, items, asked.per_call)
    params: dict[str, Any] = {DIGEST: asked.digest, "items": len(items)}
    if asked.resume:
        items, params[RESUMES] = left_of(asked, items)
        if not items:
            notice("nothing is left to do: all items have already succeeded", choices)
            return 0
    request = request_from({**devices, "gpus": str(asked.gpus_per_worker), "unbalanced": False})
    units = tuple(
        tuple(items[at : at + asked.per_call]) for at in range(0, len(items), asked.per_call)
    )
    plan = SharedPlan(
        template,
        units,
        retries=asked.policy.retries,
        grace_seconds=settings_of(choices).work_grace_seconds,
        timeout_seconds=asked.item_timeout,
    )

    def work(workers: int, prints: bool) -> "_SharedMap":
        folder = BlockFolder(shared / f"map-{os.urandom(6).hex()}")
        mine = replace(plan, block=block_size(len(units), workers))
        folder.make(mine)
        spec = here_spec(
            process_command("map-worker", str(folder.path)),
            request,
            name=asked.title,
            git=False,
            environment=module_environment(),
        )
        return _SharedMap(choices, cluster, asked, mine, folder, spec, options, workers, prints)

    if asked.scaling:
        return _measured(choices, [work(count, False) for count in asked.scaling], params)
    workers = asked.gpus // asked.gpus_per_worker if asked.gpus else _all(cluster, asked)
    return work(max(1, min(workers, len(units), MOST_WORKERS)), True).run(params)


def _all(cluster: ClusterDesk, asked: MapRequest) -> int:
    nodes = [node for node in cluster.nodes() if node.usable]
    return sum(node.gpus // asked.gpus_per_worker for node in nodes)


def _measured(choices: Choices, maps: "Sequence[_SharedMap]", params: dict[str, Any]) -> int:
    """Runs the same items with each number of workers, and prints the table."""
    steps, code = list[ScalingStep](), 0
    for one in maps:
        code = max(code, one.run(params))
        steps.append(ScalingStep(one.workers, one.done, one.worked_seconds))
    terminal = Terminal.of(choices)
    for line in scaling_lines(steps):
        terminal.say(line)
    return code


class _SharedMap(Struct):
    """One map: its workers are an array of the cluster, its results come here."""

    choices: Choices
    cluster: ClusterDesk
    asked: MapRequest
    plan: SharedPlan
    folder: BlockFolder
    spec: Any
    options: Sequence[str]
    workers: int
    prints: bool
    done: int = 0
    failed: int = 0
    _ended: dict[int, CallResult] = field(default_factory=dict)
    _read: dict[str, int] = field(default_factory=dict)
    _shown: int = 0
    _began: float = 0.0
    _first: float | None = None
    _last: float = 0.0

    @property
    def total(self) -> int:
        return sum(len(unit) for unit in self.plan.units)

    @property
    def worked_seconds(self) -> float:
        """From the beginning of the first call to the end of the last one."""
        return max(0.0, self._last - (self._last if self._first is None else self._first))

    def run(self, params: dict[str, Any]) -> int:
        settings, asked = settings_of(self.choices), self.asked
        with sampling(self.choices) as sampler:
            record = MapRecord(
                asked.title,
                asked.command,
                recording(settings, sampler, self._say, asked.folder),
                {**params, FOLDER: str(self.folder.path)},
            )
            recorder = record.open([Placement(snapshot=sampler.once(with_host=False))])
        outcome = RunOutcome(RunState.STOPPED)
        try:
            code = self._work(recorder)
            state = RunState.FAILED if self.failed else RunState.SUCCEEDED
            whole = self.done + self.failed == self.total
            words = f"{self.done} of {self.total} items succeeded, {self.failed} failed"
            outcome = RunOutcome(state if whole else RunState.STOPPED, code, None, words)
        finally:
            recorder.end(outcome)
        self._summary(recorder)
        if self.done == self.total:
            self.folder.delete()
        return code

    def _work(self, recorder: RunRecorder) -> int:
        self._began = time.monotonic()
        run = recorder.begin.id
        spec = replace(
            self.spec,
            group=f"map:{run}",
            environment={**self.spec.environment, **run_variables(run)},
        )
        indices = tuple(range(self.workers))
        submission = new_submission(spec, options=tuple(self.options), indices=indices)
        refuse(self.cluster, [submission])
        label = self.cluster.submit([submission])[0].label
        many = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        items = "1 item" if self.total == 1 else f"{self.total} items"
        self._say(f"{items} for {many} on {label} (run {run})")
        job = label.partition(":")[2]
        try:
            self._collect_all(job, recorder)
        except KeyboardInterrupt:
            self._cancel(job)
            return INTERRUPTED
        return 0 if self.done == self.total else 1

    def _collect_all(self, job: str, recorder: RunRecorder) -> None:
        asked_at, over = time.monotonic(), False
        while self.done + self.failed < self.total:
            self._collect(recorder)
            most = self.asked.policy.most_failures
            if most is not None and self.failed >= most:
                self._say(f"{self.failed} items failed, which is the limit of --max-failures")
                self._cancel(job)
                return
            if over:
                return
            if time.monotonic() - asked_at >= FRESH_SECONDS:
                asked_at = time.monotonic()
                over = self._is_over(job)
            elif self.done + self.failed < self.total:
                time.sleep(POLL_SECONDS)

    def _is_over(self, job: str) -> bool:
        """Whether no worker is left; what they wrote is read once more."""
        try:
            found, errors = self.cluster.find([job])
        except AndonError:
            return False
        return not errors and all(one.state.is_settled for one in found)

    def _collect(self, recorder: RunRecorder) -> None:
        for one in self.folder.results(self._read):
            before, now = self._ended.get(one.call), time.time()
            if before is not None and before.state is not ItemState.RETRY:
                continue  # made twice: its first worker was silent for long, and lived
            self._ended[one.call] = one
            items = self.plan.units[one.call]
            began = now - one.seconds
            self._first, self._last = min(began, self._first or began), now
            for item in items:
                recorder.write(_line(now, one, item))
            if one.state is ItemState.OK:
                self.done += len(items)
            elif one.state is ItemState.FAILED:
                self.failed += len(items)
            if one.state is not ItemState.OK:
                again = "; it is tried again" if one.state is ItemState.RETRY else ""
                self._say(f"item {items[0].shown}: {one.words}{again}")
            if self.prints and not self.asked.keep_order:
                _print(one)
        while self.prints and self.asked.keep_order:
            following = self._ended.get(self._shown)
            if following is None or following.state is ItemState.RETRY:
                break
            _print(following)
            self._shown += 1

    def _cancel(self, job: str) -> None:
        self.cluster.act(JobAct.CANCEL, [job])
        self._say(f"the workers {self.cluster.name}:{job} are asked to end")

    def _summary(self, recorder: RunRecorder) -> None:
        took = measured_seconds(time.monotonic() - self._began)
        text = f"{self.done} of {self.total} items done in {took} on {self.cluster.name}"
        text += f"; {self.failed} failed" if self.failed else ""
        rest = self.total - self.done - self.failed
        text += f"; {rest} not done" if rest else ""
        self._say(f"{text}; {report_words(self.asked.title, recorder.begin.id)}")
        if self.done < self.total:
            self._say(f"to continue: the same command with --resume {recorder.begin.id}")

    def _say(self, text: str) -> None:
        notice(text, self.choices)


def _line(at: float, one: CallResult, item: MapItem) -> RunItem:
    said = (one.output + one.errors)[-4000:].decode(errors="replace").rstrip()
    words = "\n".join(part for part in (said, one.words) if part) or None
    return RunItem(
        at, one.state, item.index, item.shown, one.where or None, one.attempt, one.seconds, words,
        item.begun_before,
    )  # fmt: skip


def _print(one: CallResult) -> None:
    for content, stream in ((one.output, sys.stdout), (one.errors, sys.stderr)):
        if content:
            stream.buffer.write(content)
            stream.flush()
