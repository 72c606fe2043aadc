"""`andon submit --param NAME=…`: one job for each combination of parameters, as one group."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import click
from click.core import ParameterSource
from msgspec.structs import replace

from andon.cli.commands.jobs import elsewhere
from andon.cli.commands.jobs.common import going_on
from andon.cli.commands.jobs.submitting import possible, sampled, show_dry, wait_for_end
from andon.cli.show.text import say
from andon.cli.terminal import Choices, Terminal, notice
from andon.errors import AndonError, Invalid
from andon.host.files import read_regular
from andon.jobs import queue as jobs
from andon.jobs.clusters.asking import OpenCluster
from andon.jobs.clusters.submitting import submission_of, submit_there
from andon.jobs.log_out import log_out_line
from andon.jobs.queue import Queue
from andon.jobs.rules.expected import learned
from andon.jobs.rules.parameters import (
    Parameters,
    check_use,
    combinations,
    command_of,
    fitted,
    parse_parameter,
    refuse_many,
)
from andon.model.job.spec import JobSpec
from andon.units import counted, human_seconds

LARGEST_BYTES = 1 << 20


def parameters_of(asked: Mapping[str, Any]) -> list[Parameters]:
    """Returns the combinations that --param, --zip and --sample make."""
    axes: dict[str, Sequence[Any]] = {}
    for text in asked["params"]:
        name, values = parse_parameter(text, _file_text)
        if name in axes:
            raise Invalid(f"the parameter {name} is given twice", hint=f"{name}=a,b has two values")
        axes[name] = values
    return combinations(axes, asked["zip"], asked["sample"], asked["sample_seed"])


def _file_text(path: str) -> str:
    try:
        return read_regular(path, LARGEST_BYTES, follow=True).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Invalid(f"{path} is not UTF-8 text", hint="save it as UTF-8") from None
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else str(exc)
        raise Invalid(f"{path} cannot be read: {reason}") from exc


def swept(base: JobSpec, found: Sequence[Parameters], asked: Mapping[str, Any]) -> list[JobSpec]:
    """Returns the job of each combination, with its own request."""
    refuse_many(len(found), asked["yes"])
    check_use(list(found[0]), base.argv)
    if asked["array"] is not None or asked["unique"]:
        option = "--array" if asked["array"] is not None else "--unique"
        raise Invalid(f"{option} cannot be combined with --param")
    source = click.get_current_context().get_parameter_source
    open_ = {name: source(name) is not ParameterSource.COMMANDLINE for name in ("gpus", "memory")}
    return [_job(base, values, open_) for values in found]


def _job(base: JobSpec, values: Parameters, open_: Mapping[str, bool]) -> JobSpec:
    words = command_of(base.argv, values)
    request = fitted(base.request, words, values, **open_)
    return replace(base, argv=words, params=values, request=request, group=base.name)


def submit_here(choices: Choices, specs: Sequence[JobSpec], dry_run: bool, wait: bool) -> int:
    checked = possible(choices, specs)
    if dry_run:
        show_dry([[one] for one in checked])
        return 0

    made = jobs.submit(checked)
    say_group(choices, made)
    if not wait:
        return 0
    group = made[0].group or ""
    with going_on(choices, [group]):
        return wait_for_end(choices, *(one.label for one in made))


def submit_elsewhere(
    choices: Choices,
    cluster: OpenCluster,
    specs: Sequence[JobSpec],
    asked: Mapping[str, Any],
    dry_run: bool,
    wait: bool,
) -> int:
    """Submits each job to a cluster as one of its own."""
    given = (asked["engine_options"], asked["after"], asked["after_any"])
    made = [submission_of(cluster, one, *given, per_gpu=asked["processes"] or 0) for one in specs]
    if dry_run:
        for submission in made:
            elsewhere.preview_there(choices, cluster, submission)
        return 0
    labels = [submit_there(cluster, submission) for submission in made]
    _say(choices, specs, labels, "")
    return max(elsewhere.waited_there(choices, cluster, label) for label in labels) if wait else 0


def say_group(choices: Choices, made: Sequence[JobSpec]) -> None:
    """Prints which jobs were made, what each asks for, and how long they will take together."""
    live = Terminal.of(choices).live
    _say(choices, made, [one.label for one in made], expected_words(choices, made) if live else "")
    if live:
        notice(log_out_line(), choices)


def _say(choices: Choices, made: Sequence[JobSpec], labels: Sequence[str], lasts: str) -> None:
    terminal = Terminal.of(choices)
    if not terminal.live:
        terminal.show("".join(f"{label}\n" for label in labels))
        return
    counts = sorted({one.request.least for one in made})
    gpus = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    each = f"{gpus} GPU{'s' * (gpus != '1')}{' each' * (len(made) > 1)}"
    mark = "SIMULATED " if made[0].simulate is not None else ""
    which = labels[0] if len(labels) == 1 else f"{labels[0]} to {labels[-1]}"
    jobs = counted(len(made), "job")
    terminal.say(say(f"{mark}{jobs} in group {made[0].group} ({which}) · {each}{lasts}"))


def expected_words(choices: Choices, made: Sequence[JobSpec]) -> str:
    """How long they take on the GPUs of this machine, if earlier ones of that name tell it."""
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
