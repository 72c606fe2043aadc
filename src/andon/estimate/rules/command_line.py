"""Parses the command line of a server: the model, and how it will run."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from andon.errors import Invalid
from andon.estimate.rules.options import (
    MODEL_OPTIONS,
    EstimateOption,
    EstimateOptions,
    ServingEngine,
    is_left_open,
    option_named,
    option_value,
    spelled,
)
from andon.units import and_more

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_PYTHON = re.compile(r"python(\d+(\.\d+)?)?", re.ASCII)
_NUMBER = re.compile(r"-\d+(\.\d+)?", re.ASCII)
CONFIG_OPTIONS = frozenset({"config", "extra-llm-api-options"})
_PROGRAMS = {
    ("vllm", "serve"): ServingEngine.VLLM,
    ("trtllm-serve",): ServingEngine.TRTLLM,
    ("trtllm-serve", "serve"): ServingEngine.TRTLLM,
    ("sglang", "serve"): ServingEngine.SGLANG,
    ("sglang.launch_server",): ServingEngine.SGLANG,
    ("python", "-m", "sglang.launch_server"): ServingEngine.SGLANG,
    ("python", "-m", "vllm.entrypoints.openai.api_server"): ServingEngine.VLLM,
    ("python", "-m", "vllm.entrypoints.api_server"): ServingEngine.VLLM,
    ("python", "-m", "tensorrt_llm.commands.serve"): ServingEngine.TRTLLM,
}
_LAUNCHERS = frozenset({"nohup", "exec", "time", "setsid", "sudo"})
_SHORT = {"q": "quantization", "tp": "tp", "pp": "pp", "dp": "dp", "dcp": "dcp", "pcp": "pcp"}
_FLAGS = {"ep": "enable-expert-parallel"}  # vLLM's -ep is not --ep
_MOST_SHOWN = 6


class ServerCommand(Struct, frozen=True):
    """A command line that was parsed as that of a server."""

    engine: ServingEngine
    model: str | None
    given: Mapping[str, Any]  # by the names of the table
    unused: tuple[str, ...]  # options that say nothing about memory, or are not known
    config: str | None = None  # a file with more options

    def options(self, base: Mapping[str, Any], file: Mapping[str, Any]) -> EstimateOptions:
        """Returns the options: the command line wins over the file, and both over `base`."""
        merged = {**base, **file, **self.given}
        return replace(EstimateOptions(self.engine), **merged)


def understood(arguments: Sequence[str]) -> ServerCommand:
    """Parses the command line of a server; raises Invalid, with one sentence, for any other."""
    rest = _without_launchers(_without_variables(_without_launchers(list(arguments))))
    engine, count = _engine(rest)
    if engine is None:
        shown = " ".join(arguments[:_MOST_SHOWN])[:80]
        raise Invalid(
            f"{shown!r} does not start a server that andon knows",
            hint="vllm serve, python -m sglang.launch_server, trtllm-serve; for a model: "
            "andon estimate MODEL",
        )
    return _read(engine, rest[count:])


def own_command(arguments: Sequence[str]) -> tuple[str, ...]:
    """Removes an `andon run --gpus 2 --` in front."""
    if arguments and arguments[0].rpartition("/")[2] == "andon" and "--" in arguments:
        return tuple(arguments[arguments.index("--") + 1 :])
    return tuple(arguments)


def is_container(arguments: Sequence[str]) -> bool:
    """Whether it starts a container: `andon run` would not limit its GPUs."""
    return [argument.rpartition("/")[2] for argument in arguments[:2]] in (
        ["docker", "run"],
        ["podman", "run"],
    )


def _without_launchers(arguments: list[str]) -> list[str]:
    """Removes what only starts the server: `nohup`, `uv run`, and a container whose image or
    command names the server."""
    while arguments:
        name = arguments[0].rpartition("/")[2]
        if name in _LAUNCHERS:
            arguments = arguments[1:]
        elif name in ("uv", "poetry", "pixi") and arguments[1:2] == ["run"]:
            arguments = arguments[2:]
        elif is_container(arguments):
            return _contained(arguments[2:]) or arguments
        else:
            break
    return arguments


def _contained(arguments: list[str]) -> list[str] | None:
    """Returns the server that a container starts; None if none is recognised."""
    for place, argument in enumerate(arguments):
        image = argument.rpartition("/")[2].partition(":")[0]
        if image == "vllm-openai":  # what follows are the arguments of its server
            return ["vllm", "serve", *arguments[place + 1 :]]
        if _engine(arguments[place : place + 3])[0] is not None:
            return arguments[place:]
    return None


def _without_variables(arguments: list[str]) -> list[str]:
    if arguments and arguments[0].rpartition("/")[2] == "env":
        arguments = arguments[1:]
    while arguments and _VARIABLE.fullmatch(arguments[0]):
        arguments = arguments[1:]
    return arguments


def _engine(arguments: Sequence[str]) -> tuple[ServingEngine | None, int]:
    """Returns the engine, and how many arguments name it; the longest match counts."""
    named = [
        argument.rpartition("/")[2] if place == 0 else argument
        for place, argument in enumerate(arguments[:3])
    ]
    if named and _PYTHON.fullmatch(named[0]):
        named[0] = "python"
    for count in (3, 2, 1):
        found = _PROGRAMS.get(tuple(named[:count]))
        if found is not None and len(named) >= count:
            return found, count
    return None, 0


def _read(engine: ServingEngine, arguments: Sequence[str]) -> ServerCommand:
    given, unused, named = dict[str, Any](), list[str](), dict[str, str]()
    place = 0
    while place < len(arguments):
        argument, place = arguments[place], place + 1
        if _is_value(argument):
            if "model" in named:
                unused.append(argument)
            named.setdefault("model", argument)
            continue
        name, _, value = argument.partition("=")
        row = _row(name)
        is_flag = row is not None and row.kind is bool
        if not value and not is_flag and place < len(arguments) and _is_value(arguments[place]):
            value, place = arguments[place], place + 1
        if value and spelled(name) in MODEL_OPTIONS:
            named["model"] = value
        elif value and spelled(name) in CONFIG_OPTIONS:
            named["config"] = value
        elif row is None:
            unused.append(name)
        elif value.lower() != "auto" and not is_left_open(row, value):
            given[row.name] = _value(row, name, value)
    model, config = named.get("model"), named.get("config")
    return ServerCommand(engine, model, given, tuple(dict.fromkeys(unused)), config)


def _value(row: EstimateOption, argument: str, value: str) -> Any:
    if row.kind is bool:
        return option_value(row, value or True)
    if not value:
        raise Invalid(f"{argument[:40]} has no value")
    return option_value(row, value)


def _row(argument: str) -> EstimateOption | None:
    if not argument.startswith("--"):
        short = argument[1:].lower()
        return option_named(_SHORT.get(short) or _FLAGS.get(short) or "")
    return option_named(argument)


def _is_value(argument: str) -> bool:
    return not argument.startswith("-") or _NUMBER.fullmatch(argument) is not None


def file_options(text: str) -> tuple[dict[str, Any], str | None]:
    """Returns the options and the model in a server's YAML: `name: value` lines, at any depth."""
    given, model = dict[str, Any](), None
    for line in text.splitlines():
        name, colon, value = line.partition("#")[0].partition(":")
        name, value = spelled(name.strip()), value.strip().strip("\"'")
        if not colon or not value:
            continue
        row = option_named(name)
        if name in MODEL_OPTIONS:
            model = value
        elif (
            row is not None
            and value.lower() not in ("auto", "null", "~")
            and not is_left_open(row, value)
        ):
            given[row.name] = option_value(row, value)
    return given, model


def understood_text(command: ServerCommand, options: EstimateOptions) -> str:
    """Returns `understood: vllm, model M, tp 2, context 32768; not used: --port`."""
    parts = [str(command.engine)]
    if command.model is not None:
        parts.append(f"model {command.model}")
    for name in command.given:
        value = getattr(options, name)
        shown = name.replace("_", " ")
        parts.append(shown if value is True else f"{shown} {value}")
    text = "understood: " + ", ".join(parts)
    if command.config is not None:
        text += f", and what {command.config} says"
    if command.unused:
        more = and_more(len(command.unused) - _MOST_SHOWN)
        text += f"; not used: {' '.join(command.unused[:_MOST_SHOWN])}{more}"
    return text
