"""Estimates over REST: the request, what it means, and the shape of the answer."""

import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field, model_validator

from andon.errors import Invalid
from andon.estimate.rules.command_line import is_container, own_command, understood, understood_text
from andon.estimate.rules.config_json import config_facts
from andon.estimate.rules.gpu_sizes import GPU_MIB
from andon.estimate.rules.known_models import KNOWN_MODELS
from andon.estimate.rules.names import name_facts, parameters_in_name
from andon.estimate.rules.options import EstimateOptions, option_named, options_of, read_options
from andon.estimate.rules.safetensors import is_header, stored_tensors
from andon.estimate.rules.shape import EstimateConfidence, FactSource, ModelFacts
from andon.estimate.rules.task_need import task_model
from andon.model.shapes import Doc
from andon.units import MIB
from andon.web.answers.requests import RequestBody

UNNAMED = "this model"
MOST_UNUSED = 6
_PATH = re.compile(r"^[./~]|\\|:/|\.\.|\.(json|safetensors|gguf|ya?ml)$|/.*/|\0")
_BY_NAME = "send its config.json as config, or a name such as llama-3-8b"


class EstimateRequest(RequestBody):
    """A model by name, by the JSON of its config.json or a safetensors header, by a server's
    command line, or by the configuration of a task, which may also be the whole request."""

    model: Annotated[str | None, Field(max_length=300, description="a name, never a path")] = None
    config: Annotated[
        dict[str, Any] | None, Field(description="the JSON of config.json or of a header")
    ] = None
    header: Annotated[
        dict[str, Any] | None, Field(description="the JSON of a safetensors header")
    ] = None
    command: Annotated[
        str | list[str] | None,
        Field(description="a server's command line: vllm serve M -tp 2", max_length=4000),
    ] = None
    task: Annotated[
        dict[str, Any] | None,
        Field(description='{"model": {"id_or_path": "llama-3-70b"}, "parameters": {"tp-size": 4}}'),
    ] = None
    on_gpus: Annotated[
        str | None,
        Field(max_length=400, description="GPUs that are not here: 4xH100; without, this node's"),
    ] = None
    options: Annotated[
        dict[str, Any], Field(description="by any of their names, such as tp", max_length=64)
    ] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _whole_task(cls, value: Any) -> Any:
        if not isinstance(value, dict) or not isinstance(value.get("model"), dict):
            return value
        own = {name: value[name] for name in ("on_gpus", "options") if name in value}
        return {"task": {name: one for name, one in value.items() if name not in own}, **own}


class EstimateQuestion(NamedTuple):
    """A request as understood: the model, how it runs, and the text that describes it."""

    facts: ModelFacts
    options: EstimateOptions
    understood: str | None = None
    command: tuple[str, ...] = ()  # the server's own, for the line to type


def requested(given: EstimateRequest) -> EstimateQuestion:
    """Returns the question in the request; the name is never used as a file."""
    typed = _typed(given.options)
    if given.command is not None and given.task is not None:
        raise Invalid("a command and a task are two questions", hint="send one of them")
    if given.command is not None:
        return _commanded(given, given.command, typed)
    if given.task is not None:
        return _tasked(given, given.task, typed)
    return EstimateQuestion(_facts(given, given.model), EstimateOptions(**typed))


def _commanded(
    given: EstimateRequest, command: str | list[str], typed: dict[str, Any]
) -> EstimateQuestion:
    try:
        arguments = shlex.split(command) if isinstance(command, str) else command
    except ValueError as exc:
        raise Invalid("the command line has a quotation mark without its other half") from exc
    own_arguments = own_command(arguments)
    server = understood(own_arguments)
    if server.config is not None:
        hint = "write its options into the command line"
        raise Invalid("a server reads no file of options", hint=hint)
    own = {name: value for name, value in typed.items() if name != "engine"}  # the command says it
    options = server.options(own, {})
    facts = _facts(given, given.model or server.model)
    recorded_command = () if is_container(own_arguments) else own_arguments
    return EstimateQuestion(facts, options, understood_text(server, options), recorded_command)


def _tasked(
    given: EstimateRequest, task: Mapping[str, Any], typed: dict[str, Any]
) -> EstimateQuestion:
    """The question for a task; parameters that do not affect memory are left out, and listed."""
    parameters = task.get("parameters")
    if parameters is not None and not isinstance(parameters, Mapping):
        raise Invalid("parameters of a task are not a table", hint='{"tp-size": [1, 2, 4]}')
    unused = [str(word)[:40] for word in parameters or {} if option_named(str(word)) is None]
    unused_note = f"; not used: {' '.join(unused[:MOST_UNUSED])}" if unused else ""
    options = replace(options_of(parameters or {}), **typed)
    name = given.model or task_model(task) or None
    return EstimateQuestion(_facts(given, name), options, f"understood: model {name}{unused_note}")


def _facts(given: EstimateRequest, name: str | None) -> ModelFacts:
    if name is not None and _PATH.search(name.strip()):
        raise Invalid("a server takes the name of a model, not a path or a URL", hint=_BY_NAME)
    config, header = given.config, given.header
    if config is not None and header is None and is_header(config):
        config, header = None, config
    if config is None and header is None:
        return _named(name)
    about = None if config is None else config_facts(config, name or UNNAMED)
    return about if header is None and about is not None else _weighed(about, header, name)


def _named(name: str | None) -> ModelFacts:
    if name is None:
        raise Invalid("no model is named", hint=_BY_NAME)
    if name.isprintable() and parameters_in_name(name) is None:
        raise Invalid(f"the name {name[:60]!r} does not contain a size", hint=_BY_NAME)
    return name_facts(name)


def _weighed(about: ModelFacts | None, header: object, name: str | None) -> ModelFacts:
    held = stored_tensors(header, "the header")
    if about is None:
        note = "without config.json how the model is divided and its KV cache are not known"
        about = ModelFacts(
            name or UNNAMED, FactSource.SAFETENSORS, EstimateConfidence.HIGH, notes=(note,)
        )
    return replace(
        about,
        source=FactSource.SAFETENSORS,
        confidence=EstimateConfidence.HIGH,
        weights_bytes=held.size_bytes,
        parameters=held.parameters or about.parameters,
    )


def _typed(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options; an unknown one is refused, because a typing error must not be ignored."""
    unknown = [word[:40] for word in given if option_named(word) is None]
    if unknown:
        raise Invalid(f"unknown option {unknown[0]!r}", hint="andon estimate --help lists them")
    return read_options(given)


class NamedGpu(Struct, frozen=True):
    """A GPU that `on_gpus` knows by name."""

    name: str
    memory_bytes: int


class EstimateNames(Struct, frozen=True):
    """The models and GPUs that can be named in a request."""

    models: Annotated[list[str], Doc("whose shapes are known; other names with a size work too")]
    gpus: list[NamedGpu]


def known_names() -> EstimateNames:
    """Returns a name for each model whose shape is known, and the GPUs."""
    models = [one.names.partition("|")[0] for one in KNOWN_MODELS]
    return EstimateNames(models, [NamedGpu(name, size * MIB) for name, size in GPU_MIB.items()])
