"""`andon submit --param NAME=…`: one job for each combination of parameters, as one group."""

from collections.abc import Mapping, Sequence
from typing import Any

import click
from click.core import ParameterSource
from msgspec.structs import replace

from andon.errors import Invalid
from andon.host.files import read_regular
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

LARGEST_BYTES = 1 << 20


def parameters_of(options: Mapping[str, Any]) -> list[Parameters]:
    """Returns the combinations that --param, --zip and --sample make."""
    axes: dict[str, Sequence[Any]] = {}
    for text in options["parameters"]:
        name, values = parse_parameter(text, _file_text)
        if name in axes:
            raise Invalid(f"the parameter {name} is given twice", hint=f"{name}=a,b has two values")
        axes[name] = values
    return combinations(axes, options["zip"], options["sample"], options["sample_seed"])


def _file_text(path: str) -> str:
    try:
        return read_regular(path, LARGEST_BYTES, follow=True).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Invalid(f"{path} is not UTF-8 text", hint="save it as UTF-8") from None
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else str(exc)
        raise Invalid(f"{path} cannot be read: {reason}") from exc


def swept(base: JobSpec, found: Sequence[Parameters], options: Mapping[str, Any]) -> list[JobSpec]:
    """Returns the job of each combination, with its own request."""
    refuse_many(len(found), options["yes"])
    check_use(list(found[0]), base.argv)
    if options["array"] is not None or options["unique"]:
        option = "--array" if options["array"] is not None else "--unique"
        raise Invalid(f"{option} cannot be combined with --param")
    source = click.get_current_context().get_parameter_source
    open_ = {name: source(name) is not ParameterSource.COMMANDLINE for name in ("gpus", "memory")}
    return [_job(base, values, open_) for values in found]


def _job(base: JobSpec, values: Parameters, open_: Mapping[str, bool]) -> JobSpec:
    argv = command_of(base.argv, values)
    request = fitted(base.request, argv, values, **open_)
    return replace(base, argv=argv, params=values, request=request, group=base.name)
