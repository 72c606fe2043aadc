"""The GPUs and memory that a task needs, by the rule kept for old callers and the estimator."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from andon.errors import Invalid
from andon.estimate.rules.fits import need_of_model
from andon.estimate.rules.names import BILLION, name_facts, parameters_in_name
from andon.estimate.rules.options import MODEL_OPTIONS, EstimateOptions, read_options, spelled
from andon.units import MIB

LEAST_MIB = 8000
TABLE_MIB = {65 * BILLION: 20000, 70 * BILLION: 20000, 7 * BILLION: 12000, 13 * BILLION: 12000}
"""What the earlier systems asked for; sizes that are not listed are estimated."""


class TaskNeed(NamedTuple):
    """The number of GPUs, the MiB that each must have free, and what could not be used for it."""

    model: str
    gpus: int
    memory_mib: int
    notes: tuple[str, ...]


def task_need(task: Mapping[str, Any]) -> TaskNeed:
    """Returns the need of `{"model": {"id_or_path": "llama-3-70b"}, "parameters": {"tp-size":
    [1, 2, 4]}}`: of a list the largest counts, and every spelling of a size is known."""
    notes: list[str] = []
    name = task_model(task)
    parameters = task.get("parameters")
    given = parameters if isinstance(parameters, Mapping) else {}
    options = EstimateOptions(**read_options(given, notes))
    gpus = options.tp * options.pp * max(options.dp, options.dcp, options.cp)
    memory = _memory_mib(name, options, notes)
    return TaskNeed(name, gpus, memory, tuple(notes))


def task_model(task: Mapping[str, Any]) -> str:
    """Returns the name of the task's model; empty if it has none."""
    found: object = task.get("model")
    if isinstance(found, Mapping):
        options = {spelled(str(key)): value for key, value in found.items()}
        names = ("name", *sorted(MODEL_OPTIONS))
        found = next((options[name] for name in names if isinstance(options.get(name), str)), "")
    return found if isinstance(found, str) else ""


def _memory_mib(name: str, options: EstimateOptions, notes: list[str]) -> int:
    count = parameters_in_name(name)
    if count is None:
        return LEAST_MIB
    if count in TABLE_MIB:
        return TABLE_MIB[count]
    try:
        need = need_of_model(name_facts(name), options)
    except Invalid as error:
        notes.append(f"{error.reason}; {LEAST_MIB} MB are assumed")
        return LEAST_MIB
    return max(LEAST_MIB, -(-need.minimum_bytes // MIB))
