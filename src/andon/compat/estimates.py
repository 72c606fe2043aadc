"""The kept function that says how many GPUs a task needs, and how much memory on each."""

import logging
from collections.abc import Mapping
from typing import Any

from andon.core.estimate.estimating import need_of_model
from andon.core.estimate.names import BILLION, name_facts, parameters_in_name
from andon.core.estimate.options import (
    MODEL_WORDS,
    EstimateOptions,
    option_named,
    option_value,
    spelled,
)
from andon.errors import Invalid
from andon.units import MIB

log = logging.getLogger("andon.estimates")

LEAST_MB = 8000
TABLE_MB = {65 * BILLION: 20000, 70 * BILLION: 20000, 7 * BILLION: 12000, 13 * BILLION: 12000}
"""What the earlier systems asked for; sizes that are not listed are estimated."""


def estimate_gpu_requirements(task_config: Mapping[str, Any]) -> tuple[int, int]:
    """The number of GPUs, and the MiB that each must have free.

    `{"model": {"id_or_path": "llama-3-70b"}, "parameters": {"tp-size": [1, 2, 4]}}` gives
    `(4, 20000)`: of a list the largest counts, and every spelling of a size is known. 65B and 70B
    are 20000, 7B and 13B 12000, a name without a size 8000; any other size is estimated.
    """
    name = _model(task_config)
    options = _options(task_config.get("parameters"))
    gpus = options.tp * options.pp * max(options.dp, options.dcp, options.cp)
    memory = _memory_mb(name, options)
    log.info("Estimated requirements for %s: %d GPUs with %d MB each", name or "-", gpus, memory)
    return gpus, memory


def _model(task_config: Mapping[str, Any]) -> str:
    found: object = task_config.get("model")
    if isinstance(found, Mapping):
        words = {spelled(str(key)): value for key, value in found.items()}
        names = ("name", *sorted(MODEL_WORDS))
        found = next((words[word] for word in names if isinstance(words.get(word), str)), "")
    return found if isinstance(found, str) else ""


def _options(parameters: object) -> EstimateOptions:
    """What can be read; what cannot is logged and left at its default."""
    given: dict[str, Any] = {}
    for word, value in parameters.items() if isinstance(parameters, Mapping) else ():
        row = option_named(str(word))
        if row is None or value is None:
            continue
        try:
            given[row.name] = option_value(row, value)
        except Invalid as error:
            log.warning("%s; it is left out", error.reason)
    return EstimateOptions(**given)


def _memory_mb(name: str, options: EstimateOptions) -> int:
    count = parameters_in_name(name)
    if count is None:
        return LEAST_MB
    if count in TABLE_MB:
        return TABLE_MB[count]
    try:
        need = need_of_model(name_facts(name), options)
    except Invalid as error:
        log.warning("%s; %d MB are assumed", error.reason, LEAST_MB)
        return LEAST_MB
    return max(LEAST_MB, -(-need.minimum_bytes // MIB))
