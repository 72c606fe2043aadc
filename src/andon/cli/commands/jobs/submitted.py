"""What `andon submit` shows at a terminal: the jobs that were made, or would be."""

from collections.abc import Sequence
from itertools import groupby
from math import ceil

from andon.cli.commands.jobs.desks import sampled
from andon.cli.show.jobs import render_dry
from andon.cli.show.text import styled
from andon.cli.terminal import Choices, Terminal, notice
from andon.errors import AndonError
from andon.jobs.log_out import log_out_line
from andon.jobs.queue import Queue
from andon.jobs.rules.expected import learned
from andon.model.job.desk import Accepted, cluster_in
from andon.model.job.spec import JobSpec
from andon.units import counted, human_seconds, sh


def show_dry(choices: Choices, accepted: Sequence[Accepted]) -> None:
    """Prints what would be submitted, as the desk previews it if it can."""
    terminal = Terminal.of(choices)
    for one in accepted:
        if one.preview:
            terminal.show(one.preview if one.preview.endswith("\n") else f"{one.preview}\n")
    plain = [one.submission for one in accepted if not one.preview]
    table = [[one.job] * max(1, len(one.indices)) for one in plain]
    terminal.print(*render_dry(table, terminal.width) if table else ())


def show_batches(choices: Choices, accepted: Sequence[Accepted]) -> None:
    """Prints a line for each job, array and sweep."""
    terminal = Terminal.of(choices)
    for _, some in groupby(accepted, _sweep):
        batch = list(some)
        if len(batch) > 1 or batch[0].submission.job.params:
            terminal.print(styled(_group_line(choices, batch)))
        else:
            terminal.print(styled(_line(batch[0], alone=len(accepted) == 1)))
    if any(one.is_new and ":" not in one.label for one in accepted):
        notice(log_out_line(), choices)


def _sweep(one: Accepted) -> object:
    job = one.submission.job
    return (job.group, job.name) if job.params else one.label


def _line(one: Accepted, alone: bool) -> str:
    job, count = one.submission.job, len(one.submission.indices)
    mark = "SIMULATED " if job.simulate is not None else ""
    many = f" ({counted(count, 'job')})" if count else ""
    there = ":" in one.label and bool(count)
    then = "andon jobs" if there else f"andon logs {sh(one.label)} -f"
    return f"{mark}job {one.label}{many}: {job.name}" + (f"; {then}" if alone else "")


def _group_line(choices: Choices, batch: Sequence[Accepted]) -> str:
    """Returns which jobs were made, what each asks for, and how long they will take together."""
    made, labels = [one.submission.job for one in batch], [one.label for one in batch]
    counts = sorted({one.request.least for one in made})
    gpus = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    each = f"{gpus} GPU{'s' * (gpus != '1')}{' each' * (len(made) > 1)}"
    mark = "SIMULATED " if made[0].simulate is not None else ""
    which = labels[0] if len(labels) == 1 else f"{labels[0]} to {labels[-1]}"
    if (hosts := len({cluster_in(one) for one in labels})) > 1:
        which = f"on {hosts} hosts"
    lasts = "" if ":" in labels[0] else expected_text(choices, made)
    jobs = counted(len(made), "job")
    return f"{mark}{jobs} in group {made[0].group} ({which}) · {each}{lasts}"


def expected_text(choices: Choices, made: Sequence[JobSpec]) -> str:
    """Returns how long the jobs will take on this machine's GPUs, if earlier jobs of that name show
    it."""
    like = learned(Queue().jobs.values()).get(made[0].name)
    if like is None:
        return ""
    try:
        devices = made[0].simulate or len(sampled(choices).devices)
    except AndonError:
        return ""
    most = max(one.request.least for one in made)
    if devices < most:
        return ""
    rounds = max(ceil(sum(one.request.least for one in made) / devices), 1)
    runs = counted(like.runs, "run")
    gpus = counted(devices, "GPU")
    return f" · about {human_seconds(rounds * like.seconds)} on {gpus}, from {runs}"
