"""A command on its devices: its environment, its record, how it ended, and the verdict."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from andon.host.oom_kills import host_kills
from andon.leases.placement import Placement
from andon.model.redaction import redact
from andon.model.run.record import RunBegin, RunCandidate, RunKind, RunState
from andon.runs.facts import find_facts
from andon.runs.header import new_run, place_of
from andon.runs.opening import RunRecording
from andon.runs.record import RunOutcome, RunRecorder, SampleWriter
from andon.runs.rules.oom import Verdict, verdict
from andon.runs.rules.ranks import run_variables
from andon.runs.rules.usage_text import end_text
from andon.settings.inherited import simulation_variables
from andon.settings.resolution import Settings
from andon.units import MIB, command_name
from andon.work.launcher import CommandEnd, Launcher
from andon.work.lease_watch import LeaseWatch
from andon.work.preparing import bound_line, bound_to, defaults, environment_of, free_port
from andon.work.tap import PrintedProgress

if TYPE_CHECKING:
    from andon.work.containers.running import ContainedCommand


class CommandWork(Struct, frozen=True):
    """A command to run, once per attempt."""

    command: Sequence[str]
    settings: Settings
    recording: RunRecording
    name: str | None = None  # of the run; else the command's
    interactive: bool = False  # it gets the terminal at once, and its error output is not kept
    shell: bool = False  # it is a person's shell
    bind: bool = False  # to the CPUs next to its devices, as far as they are known
    contained: "ContainedCommand | None" = None  # it runs in a container
    sample_writer: Callable[[RunBegin, Path], SampleWriter] | None = (
        None  # the samples in another form
    )
    kind: RunKind = RunKind.COMMAND
    more: Mapping[str, Any] = {}  # of the record's first line
    unsampled: str | None = None  # why none of its devices can be read
    begun: Callable[[RunRecorder], None] | None = None  # called when its record has begun
    output: Callable[[], str] | None = None  # the end of its output, where that is a file
    quiet: bool = False  # says neither where it runs nor what it used
    forwards: bool = True  # passes signals on; a cluster may send them to every process itself
    hopeless: Callable[[], str | None] | None = None  # why it is to be stopped, if it is

    @property
    def shown_command(self) -> str:
        """Returns the command as it may be shown."""
        return redact(tuple(self.command))

    def run(self, placement: Placement) -> tuple[int, Verdict]:
        """Runs the command, records it, and releases a lease that was taken for it, unless the
        engine could not remove the container. Returns the exit code and the verdict."""
        try:
            return _Attempt(self, placement).run()
        finally:
            if placement.held and self.contained is not None and self.contained.lives():
                placement.held.hold.close()
                self.recording.notify(
                    f"its container still runs: lease {placement.lease_id} is kept; "
                    f"to end both: andon release {placement.lease_id}"
                )
            else:
                placement.release()


class _Attempt:
    """One attempt, from the first line of its record to the last."""

    def __init__(self, work: CommandWork, placement: Placement) -> None:
        self._work, self._placement = work, placement
        self._notify = work.recording.notify
        self._watch = LeaseWatch(placement.held, self._notify)
        self._hopeless: str | None = None
        begin = self._begin()
        self._printed, sample_writer = PrintedProgress(begin.at), work.sample_writer
        image = None if work.contained is None else work.contained.options.image
        self._recorder = work.recording.open(
            begin,
            partial(find_facts, work.command, image=image),
            self._why_not_sampled(),
            None if sample_writer is None else partial(sample_writer, begin),
            self._printed,
        )

    def _begin(self) -> RunBegin:
        work, place = self._work, self._placement
        assert place.snapshot is not None
        fields = {
            "command": work.shown_command,
            "lease": place.lease_id,
            "waited_seconds": None if place.held is None else round(place.waited_seconds, 3),
            "allocation_method": place.method,
            "candidates": _candidates(place),
            "world_size": len(place.devices),
            **work.more,
        }
        name = work.name or command_name(work.command)
        return new_run(work.kind, name, place.snapshot, place.uuids, os.environ, **fields)

    def _why_not_sampled(self) -> str | None:
        """Returns why this process does not sample, if another one does: of several ranks on one
        lease only the first samples."""
        if self._placement.held is not None or self._work.unsampled is not None:
            return self._work.unsampled
        return place_of(os.environ).sampled_by_another(len(self._placement.devices))

    def run(self) -> tuple[int, Verdict]:
        recorder, kills, work = self._recorder, host_kills(), self._work
        try:
            if work.begun is not None:
                work.begun(recorder)
            end, killed = self._launched()
            self._placement.release()  # before anything else: others are waiting for it
            tail = end.tail if work.output is None else work.output()
            note, hopeless = self._watch.note, self._hopeless
            judged, last = recorder.finish(
                lambda memory: verdict(
                    end.code, end.signal, tail, memory, host_kills() - kills,
                    None if hopeless else end.ended_for, hopeless or end.interrupted, killed,
                ),
                tail,
                exit_code=end.code,
                signal=end.signal,
                duration_seconds=round(end.seconds, 3),
                released_by=None if note is None else note.by,
                release_note=None if note is None else note.note,
            )  # fmt: skip
            if not work.quiet:
                self._notify(end_text(recorder.begin, last, recorder.file.writes))
            return end.code, judged
        finally:
            if recorder.ended is None:
                recorder.end(RunOutcome(RunState.NOT_STARTED))

    def _launched(self) -> tuple[CommandEnd, bool]:
        """Returns how the command ended, and whether the kernel ended its container for lack of
        host memory."""
        work, place, recorder = self._work, self._placement, self._recorder
        bound = bound_to(place.devices) if work.bind else None
        if bound is not None:
            recorder.write(bound_line(bound))
            self._notify(bound.reason)
        if not work.interactive and not work.quiet:  # `andon lease` has said so
            lease = "without a lease" if place.lease is None else f"(lease {place.lease_id})"
            where = f"on {place.title} {lease}" if place.devices else f"where {work.unsampled}"
            self._notify(f"running {where}")
        if work.contained is None:
            run = run_variables(recorder.begin.id, str(recorder.path.absolute()))
            more = {**simulation_variables(work.settings), **run}
            fields = environment_of(os.environ, place, more, free_port())
            return self._launch(work.command, fields, None if bound is None else bound.cpus), False
        from andon.work.containers.running import follow_container

        inside = {**defaults({}, free_port()), **run_variables(recorder.begin.id)}
        work.contained.create(place.lease_id or "", place.devices, inside, place.name_container)
        return follow_container(work.contained, lambda client: self._launch(client, os.environ))

    def _launch(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        cpus: frozenset[int] | None = None,
    ) -> CommandEnd:
        work, held = self._work, self._placement.held
        launcher = Launcher(
            command,
            environment,
            work.settings.work_grace_seconds,
            held.hold if held else None,
            work.interactive,
            tapped=not work.interactive and work.output is None,
            stopped_by=self._watch.released,
            shell=work.shell,
            cpus=cpus,
            elsewhere=None if work.contained is None else work.contained.send,
            forwards=work.forwards,
        )
        self._printed.follow(launcher.recent)
        return launcher.run(self._check, self._notify)

    def _check(self) -> str | None:
        """Returns why the command must end, if it must."""
        why = self._watch.check()
        if why is None and self._work.hopeless is not None:
            why = self._hopeless = self._work.hopeless()
        return why


def _candidates(placement: Placement) -> tuple[RunCandidate, ...]:
    """Returns every device that could have been chosen, with its values at that time."""
    if placement.candidates is None:
        return ()
    models = {s.device.uuid: s.device.name for s in placement.candidates.snapshot.devices}
    return tuple(
        RunCandidate(
            index=one.index,
            name=models.get(one.uuid) or "",
            memory_free_mb=None if one.free_bytes is None else round(one.free_bytes / MIB, 1),
            utilization_percent=one.utilization_percent,
            availability_score=None if one.score is None else round(one.score, 4),
            uuid=one.uuid,
            obstacle=None if one.obstacle is None else one.obstacle.reason,
        )
        for one in placement.candidates.choice.candidates
    )
