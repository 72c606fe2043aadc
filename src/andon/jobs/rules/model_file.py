"""Job files with a model and its parameters: one job for each combination."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from andon.errors import Invalid
from andon.estimate.rules.engines import TITLES
from andon.estimate.rules.options import ServingEngine, option_named, spelled
from andon.estimate.rules.task_need import task_need
from andon.jobs.rules.file import Mistakes, jobs_in
from andon.jobs.rules.file_keys import FileJob
from andon.jobs.rules.file_lines import KeyPath, Lines
from andon.jobs.rules.parameters import Parameters, combinations

# How each engine that serves a model is started, and what it calls the options of a job file.

OWN_MEANING = frozenset({"utilization", "batched_tokens"})
"""Options that engines mean differently: the name of another engine's is not translated."""


class EngineCommand(Struct, frozen=True):
    """The command before the model, and the engine's own name of each option that it has."""

    start: tuple[str, ...]
    options: Mapping[str, str]


ENGINES: Mapping[ServingEngine, EngineCommand] = {
    ServingEngine.SGLANG: EngineCommand(
        ("python", "-m", "sglang.launch_server", "--model-path"),
        {
            "tp": "--tp-size",
            "pp": "--pp-size",
            "dp": "--dp-size",
            "dp_attention": "--enable-dp-attention",
            "context": "--context-length",
            "requests": "--max-running-requests",
            "batched_tokens": "--chunked-prefill-size",
            "utilization": "--mem-fraction-static",
            "dtype": "--dtype",
            "quantization": "--quantization",
            "kv_dtype": "--kv-cache-dtype",
            "eager": "--disable-cuda-graph",
        },
    ),
    ServingEngine.VLLM: EngineCommand(
        ("vllm", "serve"),
        {
            "tp": "--tensor-parallel-size",
            "pp": "--pipeline-parallel-size",
            "dp": "--data-parallel-size",
            "cp": "--prefill-context-parallel-size",
            "dcp": "--decode-context-parallel-size",
            "expert_parallel": "--enable-expert-parallel",
            "context": "--max-model-len",
            "requests": "--max-num-seqs",
            "batched_tokens": "--max-num-batched-tokens",
            "utilization": "--gpu-memory-utilization",
            "dtype": "--dtype",
            "quantization": "--quantization",
            "kv_dtype": "--kv-cache-dtype",
            "eager": "--enforce-eager",
        },
    ),
    ServingEngine.TRTLLM: EngineCommand(
        ("trtllm-serve",),
        {
            "tp": "--tp_size",
            "pp": "--pp_size",
            "cp": "--cp_size",
            "context": "--max_seq_len",
            "requests": "--max_batch_size",
            "batched_tokens": "--max_num_tokens",
            "utilization": "--kv_cache_free_gpu_memory_fraction",
            "kv_dtype": "--kv_cache_dtype",
        },
    ),
}
_KNOWN = frozenset(name for engine in ENGINES.values() for name in engine.options)


def option_name(engine: ServingEngine, word: str) -> str:
    """Returns the engine's name of an option, given by any name; one that is not in the table
    stays as it is. Raises ValueError if the engine has none with that meaning."""
    row = option_named(word)
    if row is None or row.name not in _KNOWN:
        return f"--{word}"
    own = ENGINES[engine].options.get(row.name)
    if own is None:
        raise ValueError(f"{TITLES[engine]} has no such option")
    if row.name in OWN_MEANING and spelled(word) not in (spelled(own), spelled(row.name)):
        raise ValueError(f"{TITLES[engine]} has {own}, which means something else")
    return own


UNUSED = frozenset({"description", "benchmark", "optimization", "slo", "runtime_image_tag"})
"""Keys of such a file that say nothing about how a job runs."""
OWN = frozenset({"model", "parameters", "deployment_mode", "base_runtime", "task_name"})


def is_model_file(document: object) -> bool:
    return isinstance(document, Mapping) and isinstance(document.get("model"), Mapping)


def model_jobs_in(document: Mapping[str, Any], path: str, lines: Lines) -> tuple[FileJob, ...]:
    """Returns the jobs of such a file; keys of a plain one are accepted, too."""
    mistakes = Mistakes(path, lines)
    model = _model(document, mistakes)
    combinations = _combinations(document.get("parameters", {}), mistakes)
    image = _image(document, mistakes)
    command = _command(document, model, mistakes)
    names = _option_names(document, combinations, mistakes)
    mistakes.check()
    plain = {k: v for k, v in document.items() if k not in OWN and k not in UNUSED}
    plain.pop("command", None)
    name = document.get("name") or document.get("task_name") or model.rstrip("/").split("/")[-1]
    jobs = []
    for parameters in combinations:
        need = task_need({"model": model, "parameters": parameters})
        options = ((names[one], value) for one, value in parameters.items())
        argv = [*command, *(word for one in options for word in _option(*one))]
        jobs.append(
            {
                **({"gpus": need.gpus} if "gpus" not in plain else {}),
                **({"memory": f"{need.memory_mib}MiB"} if "memory" not in plain else {}),
                **({"image": image} if image else {}),
                **({"group": name} if "group" not in plain and len(combinations) > 1 else {}),
                "name": name,
                "command": argv,
                "params": parameters,
            }
        )
    return jobs_in({**plain, "job": jobs}, path, _at_top(lines, len(jobs)))


def _at_top(lines: Lines, count: int) -> Lines:
    """Returns the lines with every job on line 1: a mistake in a job made from the whole file is
    reported there."""
    made: dict[KeyPath, int] = {("job", index): 1 for index in range(count)}
    return {**lines, **made}


def _model(document: Mapping[str, Any], mistakes: Mistakes) -> str:
    found = document["model"].get("id_or_path")
    if not isinstance(found, str) or not found:
        mistakes.add(("model",), "there is no model.id_or_path")
        return ""
    return found


def _combinations(parameters: object, mistakes: Mistakes) -> list[Parameters]:
    """Returns every combination of the listed values, the first parameter changing slowest."""
    if not isinstance(parameters, Mapping):
        mistakes.add(("parameters",), "not a table of parameters")
        return []
    axes: dict[str, list[Any]] = {}
    for name, given in parameters.items():
        values = given if isinstance(given, list) else [given]
        plain = all(isinstance(value, str | int | float | bool) for value in values)
        if not values or not plain:
            mistakes.add(("parameters", str(name)), "neither a value nor a list of values")
            return []
        axes[str(name)] = values
    try:
        return combinations(axes)
    except Invalid as wrong:
        mistakes.add(("parameters",), wrong.reason)
        return []


def _image(document: Mapping[str, Any], mistakes: Mistakes) -> str:
    mode, image = document.get("deployment_mode", "local"), document.get("image", "")
    if mode == "local":
        return str(image)
    if mode != "docker":
        message = f"{str(mode)[:40]!r} is neither docker nor local"
        if mode == "ome":
            message += "; for KServe: andon submit --on k8s --kind inferenceservice -- COMMAND"
        mistakes.add(("deployment_mode",), message)
        return ""
    tag = document.get("runtime_image_tag")
    if not image and isinstance(tag, str) and tag:
        image = f"{document.get('base_runtime', 'sglang')}:{tag}"
    if not isinstance(image, str) or not image:
        mistakes.add(("deployment_mode",), 'docker needs an image: write image = "NAME:TAG"')
        return ""
    return image


def _command(document: Mapping[str, Any], model: str, mistakes: Mistakes) -> tuple[str, ...]:
    given = document.get("command")
    if given is not None:
        if not isinstance(given, list) or not all(isinstance(word, str) for word in given):
            mistakes.add(("command",), "not a list of words")
            return ()
        return (*given, "--model", model)
    engine = _engine(document)
    if engine is None:
        known = ", ".join(ENGINES)
        message = f"{str(document['base_runtime'])[:40]!r} is not one of {known}"
        mistakes.add(("base_runtime",), f"{message}; write a command instead")
        return ()
    return (*ENGINES[engine].start, model)


def _engine(document: Mapping[str, Any]) -> ServingEngine | None:
    runtime = document.get("base_runtime", ServingEngine.SGLANG.value)
    return next((engine for engine in ENGINES if engine == runtime), None)


def _option_names(
    document: Mapping[str, Any], combinations: Sequence[Parameters], mistakes: Mistakes
) -> dict[str, str]:
    """The engine's name of each parameter; for a user's own command they stay as they are."""
    keys = list(combinations[0]) if combinations else []
    engine = _engine(document) if document.get("command") is None else None
    names = {key: f"--{key}" for key in keys}
    if engine is None:
        return names
    for word in keys:
        try:
            names[word] = option_name(engine, word)
        except ValueError as wrong:
            mistakes.add(("parameters", word), str(wrong))
    return names


def _option(name: str, value: object) -> tuple[str, ...]:
    """Returns an option's arguments: true is a flag without a value, false is left out."""
    if isinstance(value, bool):
        return (name,) if value else ()
    return name, str(value)
