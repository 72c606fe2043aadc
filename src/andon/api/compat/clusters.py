"""The kept functions about the GPUs of a cluster: its nodes, the best of them, a deployment."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from andon.api import watch as library
from andon.app.desks import desk_named
from andon.errors import Invalid
from andon.estimate.rules.task_need import task_need
from andon.jobs.clusters.desk import ClusterDesk
from andon.jobs.rules.able import refuse
from andon.jobs.rules.best_nodes import IdleLimits, best_nodes
from andon.jobs.submitting import local_spec, new_submission
from andon.leases.rules.requests import RequestOptions
from andon.model.job.cluster import ClusterNode

USUAL = "k8s"


def get_cluster_gpu_status(on: str = USUAL) -> list[ClusterNode]:
    """Returns the nodes of a cluster with GPUs: how many each has, how many are requested and
    free, and how busy they are. A value that is not known is None, and `missing` says why."""
    return _cluster(on).nodes()


def select_best_node(
    required_gpus: int | None = None,
    task_config: Mapping[str, Any] | None = None,
    max_utilization: float = 30,
    max_memory_percent: float = 50,
    on: str = USUAL,
) -> str | None:
    """Returns the name of the idle node with the most free GPUs; None if no node is known to be
    idle and to have so many free: the cluster's own scheduler then decides.

    Without `required_gpus` the number comes from the task: `{"parameters": {"tp-size": 4}}`.
    """
    gpus = required_gpus or (task_need(task_config).gpus if task_config else 1)
    limits = IdleLimits(max_utilization, max_memory_percent)
    best = best_nodes(get_cluster_gpu_status(on), gpus, limits)
    return best[0].name if best else None


def deploy(
    command: str | Sequence[str],
    image: str,
    *,
    gpus: int | None = None,
    task_config: Mapping[str, Any] | None = None,
    kind: str = "deployment",
    name: str | None = None,
    options: Sequence[str] = (),
    enable_gpu_selection: bool = True,
    on: str = USUAL,
) -> str:
    """Deploys a command in an image; returns what `andon jobs` calls it.

    It prefers the best nodes, unless `enable_gpu_selection` is false: then the cluster's scheduler
    decides alone, as it does where no node is known to be idle.
    """
    arguments = shlex.split(command) if isinstance(command, str) else list(command)
    if not arguments:
        raise Invalid("there is no command to deploy")
    count = gpus or (task_need(task_config).gpus if task_config else 1)
    cluster = _cluster(on)
    request = RequestOptions(count).request()
    spec = local_spec(arguments, request, name=name or arguments[0], container={"image": image})
    chosen = [] if enable_gpu_selection else ["gpu-selection=false"]
    job = new_submission(spec, options=(*options, f"kind={kind}", *chosen))
    refuse(cluster, [job])
    return cluster.submit([job])[0].label


def _cluster(on: str) -> ClusterDesk:
    return desk_named(on, lambda: library.shared().settings, _not_local)


def _not_local() -> NoReturn:
    raise Invalid("this machine is no cluster", hint=f'on="{USUAL}"')
