"""What `andon submit` does with one job, a job file and a sweep alike: it checks them, shows them
and waits for them."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from andon.cli.options import chosen
from andon.cli.terminal import Choices, Terminal, notice
from andon.jobs.queue import possible_here
from andon.model.job.spec import JobSpec

if TYPE_CHECKING:
    from andon.model.device import Snapshot


def possible(
    choices: Choices, specs: Sequence[JobSpec], sample: "Callable[[], Snapshot] | None" = None
) -> list[JobSpec]:
    """Returns the same specs; raises an error if this machine can never start one of them."""
    if all(spec.request.is_plain for spec in specs):
        return list(specs)  # `submit` must be quick
    from andon.app.leases import labels_of
    from andon.cli.sources import resolved_of

    labels = labels_of(resolved_of(choices).settings)
    return possible_here(specs, sample or (lambda: sampled(choices)), labels)


def sampled(choices: Choices) -> "Snapshot":
    from andon.cli.sources import sampling_ahead

    with sampling_ahead(choices) as sampler:
        return sampler.once(with_host=False)


def say_same(choices: Choices, label: str) -> None:
    notice(f"job {label} is the same; nothing was queued", choices)


def show_dry(jobs: Sequence[list[JobSpec]]) -> None:
    from andon.cli.show.jobs import render_dry

    terminal = Terminal.of(chosen())
    for line in render_dry(jobs, terminal.width):
        terminal.say(line)


def wait_for_end(choices: Choices, *jobs: str) -> int:
    from andon.cli.commands.jobs.common import meant_jobs, open_queue, wait_settled, worst_code

    queue = open_queue(choices)
    numbers = [facts.spec.number for facts in meant_jobs(queue, jobs)[0]]
    deleted = wait_settled(queue, numbers)
    for view in queue.views(numbers):
        if view.error:
            sys.stdout.flush()
            notice(f"job {view.label} {view.state.words}: {view.error}", choices)
    return worst_code(queue, numbers, deleted)
