"""The kept function that says how many GPUs a task needs, and how much memory on each."""

import logging
from collections.abc import Mapping
from typing import Any

from andon.estimate.rules.task_need import task_need
from andon.units import counted

log = logging.getLogger("andon.estimates")


def estimate_gpu_requirements(task_config: Mapping[str, Any]) -> tuple[int, int]:
    """The number of GPUs, and the MiB that each must have free.

    `{"model": {"id_or_path": "llama-3-70b"}, "parameters": {"tp-size": [1, 2, 4]}}` gives
    `(4, 20000)`: of a list the largest counts, and every spelling of a size is known. 65B and 70B
    are 20000, 7B and 13B 12000, a name without a size 8000; any other size is estimated.
    """
    need = task_need(task_config)
    for note in need.notes:
        log.warning("%s", note)
    log.info(
        "Estimated requirements for %s: %s with %d MB%s",
        need.model or "-",
        counted(need.gpus, "GPU"),
        need.memory_mib,
        " each" if need.gpus > 1 else "",
    )
    return need.gpus, need.memory_mib
