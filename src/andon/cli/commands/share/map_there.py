"""`andon map --on NAME`: a job of the cluster for each call, their outputs collected here."""

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from andon.cli.commands.jobs.following import JobOutput
from andon.cli.commands.share.map_blocks import map_in_blocks
from andon.cli.device_request import request_from
from andon.cli.map_session import MapRequest, read_items, refuse_options
from andon.cli.terminal import INTERRUPTED, Choices, notice, write
from andon.errors import AndonError, Gone, Unavailable
from andon.jobs.clusters.desk import ClusterDesk
from andon.jobs.rules.able import refuse
from andon.jobs.rules.polling import FRESH_SECONDS, PAST_SECONDS
from andon.jobs.submitting import here_spec, new_submission
from andon.model.job.cluster import ClusterJob
from andon.model.job.desk import JobAct, Submission
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import JobState
from andon.model.run.record import ItemState
from andon.units import counted, measured_seconds
from andon.work.containers.rules.options import options_to_json
from andon.work.rules.map.plan import MapPlan, MapUnit
from andon.work.rules.map.template import CommandTemplate, template_of

MOST_AT_ONCE = 100
"""Jobs of one map that wait or run in a cluster, unless --gpus says less."""
POLL_SECONDS = 0.5
REFUSED = ("worker", "cpu", "bind", "resume", "scaling")
FIRST_GPU = "0"
"""What a worker calls its GPU, whichever it got."""


def map_there(
    choices: Choices,
    cluster: ClusterDesk,
    asked: MapRequest,
    devices: dict[str, Any],
    options: Sequence[str],
) -> int:
    """Runs the map on a cluster and returns the exit code."""
    if (shared := cluster.open().shared_folder) is not None:
        return map_in_blocks(choices, cluster, Path(shared), asked, devices, options)
    refuse_options(asked, REFUSED)
    items = read_items(asked)
    template = template_of(asked.command, items, asked.per_call)
    plan = MapPlan(items, asked.policy, asked.per_call)
    request = request_from({**devices, "gpus": str(asked.gpus_per_worker)})
    return _MapThere(choices, cluster, asked, plan, _Calls(template, request, options)).run()


class _Calls(NamedTuple):
    """How the job of a call is made."""

    template: CommandTemplate
    request: DeviceRequest
    options: Sequence[str]


class _MapThere:
    """The calls of one map, each a job of the cluster."""

    def __init__(
        self,
        choices: Choices,
        cluster: ClusterDesk,
        asked: MapRequest,
        plan: MapPlan,
        calls: _Calls,
    ) -> None:
        self._choices, self._cluster, self._asked = choices, cluster, asked
        self._plan, self._calls = plan, calls
        gpus = asked.gpus or MOST_AT_ONCE
        self._most = min(MOST_AT_ONCE, max(1, gpus // asked.gpus_per_worker))
        self._jobs: dict[str, MapUnit] = {}
        self._unsent: list[tuple[Submission, MapUnit]] = []
        self._outputs: dict[int, str] = {}
        self._shown = 0

    def run(self) -> int:
        began = time.monotonic()
        try:
            while not self._plan.over:
                self._send()
                self._collect()
                if not self._plan.over:
                    time.sleep(FRESH_SECONDS if self._unsent else POLL_SECONDS)
        except KeyboardInterrupt:
            self._cancel()
            return INTERRUPTED
        done, failed, total = self._plan.done, self._plan.failed, len(self._plan.items)
        took, rest = measured_seconds(time.monotonic() - began), self._plan.untouched
        text = f"{done} of {total} items done in {took} on {self._cluster.name}"
        text += f"; {failed} failed" if failed else ""
        notice(text + (f"; {rest} not begun" if rest else ""), self._choices)
        return 0 if done == total else 1

    def _send(self) -> None:
        """Submits as many calls as may wait or run; one that got no answer is sent again under
        its label, which makes no second job."""
        again, self._unsent = self._unsent, []
        for submission, unit in again:
            self._submit(submission, unit)
        while not self._unsent and len(self._jobs) < self._most:
            following = self._plan.take(time.monotonic())
            if following is None:
                return
            self._submit(self._submission(following), following)

    def _submit(self, submission: Submission, unit: MapUnit) -> None:
        try:
            (accepted,) = self._cluster.submit([submission])
        except Unavailable as error:
            if not self._jobs and not self._unsent and self._plan.done == 0:
                raise
            notice(f"{error.reason}; trying again", self._choices)
            self._unsent.append((submission, unit))
        else:
            self._jobs[self._cluster.id_of(accepted.label)] = unit

    def _submission(self, unit: MapUnit) -> Submission:
        asked, image = self._asked, self._asked.image
        spec = here_spec(
            self._calls.template.command(unit.items, FIRST_GPU),
            self._calls.request,
            name=asked.name or "",
            git=False,
            for_seconds=asked.item_timeout,
            container={} if image is None else options_to_json(image),
        )
        found = new_submission(spec, options=tuple(self._calls.options))
        refuse(self._cluster, [found])
        return found

    def _collect(self) -> None:
        since = time.time() - PAST_SECONDS
        try:
            jobs = self._cluster.ask(lambda _: self._cluster.jobs(since))
            found = {job.id: job for job in jobs}
        except AndonError as error:
            if not isinstance(error, Unavailable):
                raise
            return  # it may come back
        for job, unit in list(self._jobs.items()):
            if job not in found:
                self._end(unit, None, "")
            elif found[job].state.is_settled:
                self._end(unit, found[job], self._log(job))
            else:
                continue
            del self._jobs[job]

    def _log(self, job: str) -> str:
        output, texts = JobOutput(self._cluster, job), list[str]()
        with suppress(Gone):
            while text := output.read():
                texts.append(text)
        return "".join(texts)

    def _end(self, unit: MapUnit, job: ClusterJob | None, output: str) -> None:
        ok = job is not None and job.state is JobState.SUCCEEDED
        state = self._plan.ended(unit, ok, time.monotonic())
        if not ok:
            why = "it is no longer known" if job is None else job.reason or job.state.words
            again = "; again" if state is ItemState.RETRY else ""
            notice(f"item {unit.items[0].shown}: {why}{again}", self._choices)
        if state is not ItemState.RETRY:
            self._print(unit, output)

    def _print(self, unit: MapUnit, output: str) -> None:
        """Prints an output, in the order of the items if that is wanted."""
        if not self._asked.keep_order:
            write(sys.stdout, output)
            return
        self._outputs[unit.items[0].index] = output
        first = [item.index for item in self._plan.items[:: max(1, self._asked.per_call)]]
        while self._shown < len(first) and first[self._shown] in self._outputs:
            write(sys.stdout, self._outputs.pop(first[self._shown]))
            self._shown += 1

    def _cancel(self) -> None:
        if self._jobs:
            jobs = list(self._jobs)
            self._cluster.act(JobAct.CANCEL, jobs)
            many, where = counted(len(jobs), "job"), self._cluster.name
            notice(f"{many} on {where} asked to end", self._choices)
