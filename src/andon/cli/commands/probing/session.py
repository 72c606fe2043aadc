"""Probes a command on devices that are leased once, for all trials."""

import os
import sys
from collections.abc import Sequence

from andon.cli.show.probe import RESULTS, render_probe, trial_line
from andon.cli.show.text import without_commands
from andon.cli.sources import settings_of
from andon.cli.terminal import Choices, Terminal, notice, write
from andon.errors import AndonError, Invalid, TimedOut
from andon.leases.placement import Placement
from andon.model.codec import document
from andon.model.probe import Trial, TrialState
from andon.runs.rules.sampled import run_devices
from andon.sampling.sampler import Sampler
from andon.units import human_bytes, sh
from andon.work.lease_watch import LeaseWatch
from andon.work.preparing import bound_to, environment_of, free_port
from andon.work.probe.command_trials import CommandTrials, TrialLimits
from andon.work.probe.prober import NO_MATCH, NO_METRIC, ProbeOutcome, Prober
from andon.work.probe.shelf import store_probe
from andon.work.rules.probe import ProbeRequest

INTERRUPTED = 130
SHOWN_LINES = 40  # of the output of a trial that failed


class Probing:
    """A command to probe, on devices that are leased until it is done."""

    def __init__(
        self,
        choices: Choices,
        command: Sequence[str],
        sampler: Sampler,
        request: ProbeRequest,
        limits: TrialLimits,
        as_json: bool,
        bind: bool,
    ) -> None:
        self._choices, self._command, self._sampler = choices, list(command), sampler
        self._request, self._limits, self._as_json, self._bind = request, limits, as_json, bind
        self._total: int | None = None

    def run(self, placement: Placement) -> int:
        """Probes on these devices; releases a lease that was taken for it whatever happens."""
        shares = () if placement.lease is None else placement.lease.shares
        parts = [share for share in shares if share.memory_bytes is not None]
        if parts:
            size = human_bytes(parts[0].memory_bytes or 0)
            raise Invalid(
                f"lease {placement.lease_id} is a share of {size}, and others may use the rest",
                hint="probing needs whole devices: omit --lease and unset ANDON_LEASE",
            )
        try:
            return self._probe(placement)
        finally:
            placement.release()

    def _probe(self, placement: Placement) -> int:
        held, where, snapshot = placement.held, placement.title, placement.snapshot
        assert snapshot is not None
        devices = run_devices(snapshot, placement.uuids)
        plan = self._request.plan(devices, snapshot.node, snapshot.simulated)
        self._total = plan.memory_total_bytes
        bound = bound_to(placement.devices) if self._bind else None
        trials = CommandTrials(
            self._command,
            environment_of(os.environ, placement, port=free_port()),
            self._limits,
            settings_of(self._choices).work_grace_seconds,
            held.hold if held else None,
            LeaseWatch(held, self._notify).check,
            self._notify,
            None if bound is None else bound.cpus,
        )
        self._notify(f"probing on {where} (lease {placement.lease_id})")
        if bound is not None:
            self._notify(bound.reason)
        prober = Prober(
            plan,
            trials,
            self._sampler,
            devices,
            self._report,
            NO_METRIC if self._limits.metric is None else NO_MATCH,
        )
        outcome = prober.run()
        placement.release()  # before anything is shown: others may be waiting for it
        return self._shown(outcome, where)

    def _report(self, trial: Trial) -> None:
        self._notify(trial_line(trial, self._total))
        if trial.note:
            self._notify(trial.note)

    def _shown(self, outcome: ProbeOutcome, where: str) -> int:
        probe, terminal = outcome.probe, Terminal.of(self._choices)
        if self._as_json:
            terminal.show_json(document(probe))
        elif probe.largest is not None:
            terminal.print(*render_probe(probe, where, terminal.width))
        if outcome.broken is not None:
            return self._broken(outcome.broken, outcome.output)
        if probe.largest is None:
            smallest = probe.trials[0]
            raise AndonError(
                f"even the smallest size, {smallest.size}, does not fit on {where}: "
                f"{smallest.message}",
                hint="lower --min, or request a larger GPU: --memory SIZE",
            )
        store_probe(probe)
        self._notify(f"stored: andon probes best {sh(probe.name)}")
        return 0

    def _broken(self, trial: Trial, output: str) -> int:
        """Prints the output of the trial that ended the search early, and the reason."""
        if trial.state is TrialState.STOPPED:
            self._notify(f"{trial.message}; nothing was stored")
            return INTERRUPTED if trial.message == "stopped on request" else 1
        lines = output.rstrip("\n").splitlines()[-SHOWN_LINES:]
        if lines:
            write(sys.stderr, without_commands("\n".join(lines)) + "\n")
        if trial.state is TrialState.HUNG:
            raise TimedOut(
                f"the trial with {trial.size} {trial.message} and was ended",
                hint="a command that runs until it is stopped: --seconds 30, or --ready REGEX "
                "for a server; one that is slow: a longer --timeout",
            )
        raise AndonError(
            f"the trial with {trial.size} {RESULTS[trial.state][0]}, and not for lack of memory: "
            f"{trial.message}",
            hint="its output is above; nothing was stored",
        )

    def _notify(self, text: str) -> None:
        notice(text, self._choices)
