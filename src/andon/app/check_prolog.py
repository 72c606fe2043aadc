"""`andon check --prolog`: checks the GPUs that Slurm gave to a job, or all that a container sees,
without a lease.

Slurm drains a node whose prolog fails and holds the job, so all but broken cards end with 0.
"""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from andon.app.sampler import open_sampler
from andon.app.settings import load_settings
from andon.checks.checking import CardToCheck, Checker
from andon.checks.rules.plan import CheckMode, plan_for
from andon.checks.rules.prolog import exit_code
from andon.doctor.rules.job_devices import given_devices, unclear_numbers
from andon.errors import AndonError
from andon.host.cards import device_minors
from andon.model.check import CardResult
from andon.model.device import Snapshot
from andon.sampling.rules.masks import VARIABLES

LONGEST_SECONDS = 20.0  # a prolog holds the job: better unchecked than late


def prolog(drain_if: Sequence[str] = ()) -> int:
    """Checks the devices of the job, and prints a line for each; returns the exit code."""
    numbers = os.environ.get("SLURM_JOB_GPUS", "")
    try:
        results = check_job(numbers, every=not numbers and "SLURM_JOB_ID" not in os.environ)
    except (AndonError, OSError) as error:
        print(f"andon: the GPUs of this job were not checked: {error}", file=sys.stderr)
        return 0
    return exit_code(results, drain_if)


def check_job(numbers: str, every: bool = False) -> list[CardResult]:
    """Returns what was found on the devices with these numbers, as SLURM_JOB_GPUS has them, or on
    all: a container has no others."""
    until = time.monotonic() + LONGEST_SECONDS
    if not (numbers or every):
        return []
    for name in VARIABLES:  # the job's masks would hide devices, and change their numbers
        os.environ.pop(name, None)
    settings = load_settings({}).settings
    with open_sampler(settings) as sampler:
        snapshot = sampler.once(with_host=False)
        uuids = None if every else _given(numbers, snapshot, Path(settings.root))
        if uuids == []:
            return []
        checker = Checker(sampler, plan_for(CheckMode.QUICK))
        statuses, results = checker.candidates(snapshot, uuids)
        cards = [CardToCheck(checker.begin(snapshot, one)) for one in statuses]
        results += checker.run(cards, lambda: time.monotonic() > until)
    for one in results:
        print(f"andon: GPU {one.label}: {one.verdict}: {one.text}", file=sys.stderr)
    return results


def _given(numbers: str, snapshot: Snapshot, root: Path) -> list[str]:
    """Returns the devices with these numbers; none where it is not clear which they are."""
    given = given_devices(numbers, snapshot.devices, device_minors(root))
    if (doubt := unclear_numbers(given, snapshot.devices)) is not None:
        print(f"andon: not checked: {doubt}", file=sys.stderr)
        return []
    return [one.device.uuid for one in given]
