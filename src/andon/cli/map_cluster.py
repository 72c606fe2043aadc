"""What works on the items of `andon map --on NAME`: jobs of the cluster."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from andon.cli.device_request import request_from
from andon.cli.map_request import MapRequest
from andon.cli.sources import settings_of
from andon.cli.terminal import Choices
from andon.errors import Invalid
from andon.host.interpreter import module_environment
from andon.jobs.clusters.desk import ClusterDesk
from andon.jobs.clusters.map_blocks import BlockPool
from andon.jobs.clusters.map_jobs import JobPool, MapJobs
from andon.jobs.submitting import here_spec
from andon.sampling.sampler import Sampler
from andon.work.containers.rules.options import options_to_json
from andon.work.map.blocks import SharedPlan, block_size
from andon.work.map.pool import Notify, WorkerPool
from andon.work.rules.map.plan import MapPlan, MapUnit
from andon.work.rules.map.template import CommandTemplate

MOST_JOBS, MOST_WORKERS = 100, 1000
"""Of one map in a cluster, unless --gpus says less."""
FIRST_GPU = "0"
"""What a worker calls its GPU, whichever it got."""


class ClusterPools(Struct, frozen=True):
    """MapPools of a cluster: workers that share the items where jobs see our files, else a job for
    each call."""

    choices: Choices
    desk: ClusterDesk
    asked: MapRequest
    devices: dict[str, Any]
    template: CommandTemplate
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shared = self.desk.open().shared_folder is not None
        wrong = [name for name in ("worker", "cpu", "bind") if getattr(self.asked, name)]
        wrong += ["image"] if shared and self.asked.image else []
        wrong += ["per-gpu"] if self.asked.per_gpu > 1 else []
        if wrong:
            raise Invalid(f"--{wrong[0]} is for a map on this machine", hint="leave out it or --on")

    def pool(
        self, plan: MapPlan, workers: int | None, sampler: Sampler, notify: Notify
    ) -> WorkerPool:
        asked = self.asked
        request = request_from(
            {**self.devices, "gpus": str(asked.gpus_per_worker), "unbalanced": False}
        )
        spec = partial(here_spec, request=request, name=asked.title, git=False)
        gpus = None if asked.gpus is None else max(1, asked.gpus // asked.gpus_per_worker)
        shared = self.desk.open().shared_folder
        if shared is not None:
            jobs = MapJobs(self.desk, partial(spec, environment=module_environment()), self.options)
            many = workers or min(gpus or self._all(), plan.waiting, MOST_WORKERS)
            return BlockPool(jobs, plan, notify, self._shared(plan, many), Path(shared), many)
        container = {} if asked.image is None else options_to_json(asked.image)
        spec = partial(spec, for_seconds=asked.item_timeout, container=container)
        most = workers or min(gpus or MOST_JOBS, MOST_JOBS)
        return JobPool(MapJobs(self.desk, spec, self.options), plan, notify, self._command, most)

    def _command(self, unit: MapUnit) -> Sequence[str]:
        return self.template.command(unit.items, FIRST_GPU)

    def _all(self) -> int:
        nodes = [node for node in self.desk.nodes() if node.usable]
        return max(1, sum(node.gpus // self.asked.gpus_per_worker for node in nodes))

    def _shared(self, plan: MapPlan, workers: int) -> SharedPlan:
        units = plan.units
        return SharedPlan(
            self.template,
            units,
            block_size(len(units), workers),
            self.asked.policy.retries,
            settings_of(self.choices).work_grace_seconds,
            self.asked.item_timeout,
        )
