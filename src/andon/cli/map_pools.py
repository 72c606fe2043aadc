"""What works on the items of `andon map`: leased devices of this machine, or jobs of a cluster."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from andon.cli.device_request import request_from, wait_seconds
from andon.cli.map_request import MapRequest
from andon.cli.show.map import where
from andon.cli.show.waiting import WaitingLine
from andon.cli.sources import availability_of, settings_of
from andon.cli.terminal import Choices, notice
from andon.drivers.shared.presence import signs
from andon.errors import Invalid, Unavailable
from andon.host.interpreter import module_environment
from andon.jobs.clusters.desk import ClusterDesk
from andon.jobs.clusters.map_blocks import BlockPool
from andon.jobs.clusters.map_jobs import JobCaller, MapJobs
from andon.jobs.rules.able import refuse
from andon.jobs.submitting import local_spec
from andon.leases.book.lease_book import Book
from andon.leases.granter import Granter, LeaseTerms
from andon.leases.placement import Placement
from andon.model.redaction import redact
from andon.model.shapes import to_json
from andon.runs.record import RunRecorder
from andon.sampling.sampler import Sampler
from andon.work.containers.running import ContainedCommand
from andon.work.map.blocks import SharedPlan, block_size
from andon.work.map.commands import MapCommand
from andon.work.map.places import CpuPlaces, LeasedPlaces, MapPlace, WorkPlaces
from andon.work.map.pool import MapPool, Notify, WorkerPool
from andon.work.rules.map.plan import MapPlan, MapUnit
from andon.work.rules.map.template import FIRST_GPU, CommandTemplate

MOST_JOBS, MOST_WORKERS = 100, 1000
"""Of one map in a cluster, unless --gpus says less."""
GPU_OPTIONS = ("memory", "shared", "model", "label", "devices")


class LocalPools(Struct, frozen=True):
    """Makes the pool of a map on this machine, or several for --scaling."""

    choices: Choices
    request: MapRequest
    devices: dict[str, Any]
    template: CommandTemplate
    inside: "ContainedCommand | None" = None

    def pool(
        self, plan: MapPlan, workers: int | None, sampler: Sampler, notify: Notify
    ) -> WorkerPool:
        request, inside = self.request, self.inside
        command = MapCommand(
            self.template,
            settings_of(self.choices).work_grace_seconds,
            notify,
            request.worker,
            request.item_timeout,
            request.bind,
            None if inside is None else (inside.engine, inside.options),
        )
        return MapPool(plan, self._places(workers, sampler), command.caller, notify)

    def where(self, pool: WorkerPool, found: Sequence[Placement], recorder: RunRecorder) -> str:
        """Returns where a map begins, and how many devices it may get."""
        simulated = "simulated " if recorder.begin.simulated and found[0].devices else ""
        more = f", up to {pool.most}" if pool.most > len(found) else ""
        return f"{simulated}{where([place.label for place in found])}{more}"

    def _places(self, workers: int | None, sampler: Sampler) -> WorkPlaces:
        request = self.request
        if request.cpu is not None:
            return CpuPlaces(workers or request.cpu)
        device_request = request_from(
            {**self.devices, "gpus": request.gpus_per_worker, "unbalanced": False}
        )
        most = settings_of(self.choices).map_gpus
        if request.gpus is not None:
            most = min(most, request.gpus)
        if workers is not None:
            most = workers * request.gpus_per_worker
        if most < request.gpus_per_worker:
            raise Invalid(
                f"a worker needs {request.gpus_per_worker} GPUs, but the map may have {most}",
                hint="use a larger --gpus, or raise the setting map.gpus",
            )
        availability = availability_of(self.choices, sampler)
        terms = LeaseTerms(command=f"map: {redact(request.command)}")
        found = LeasedPlaces(
            availability,
            replace(device_request, balanced=False)
            if request.gpus_per_worker == 1
            else device_request,
            lambda *asking: Granter(Book(), availability).grant(asking[0], terms, *asking[1:]),
            most,
            request.per_gpu,
            wait_seconds(self.devices),
            WaitingLine(self.choices),
        )
        try:
            _ = found.most
        except Unavailable as error:
            if self._wants_gpu() or not self._has_no_gpu():
                raise Unavailable(error.reason, hint=_without_gpu(error.hint)) from error
            count = f"{workers} workers" if workers not in (None, 1) else "1 worker"
            notice(f"{error.reason}: {count} on the CPU instead; --cpu N for N", self.choices)
            return CpuPlaces(workers or 1)
        return found

    def _wants_gpu(self) -> bool:
        """Whether an option was given that only makes sense with a GPU."""
        request = self.request
        named = any(self.devices.get(name) for name in GPU_OPTIONS)
        return named or request.bind or request.gpus is not None or request.gpus_per_worker > 1

    def _has_no_gpu(self) -> bool:
        """Whether the node has no GPU at all; one whose driver fails counts as a GPU, so that
        work does not start without it."""
        return not signs(Path(settings_of(self.choices).root))


def _without_gpu(hint: str) -> str:
    more = "andon map --cpu 4 works without a GPU"
    return f"{hint}; {more}" if hint else more


class ClusterPools(Struct, frozen=True):
    """Makes the pool of a map on a cluster: workers that share the items if jobs see our files,
    else a job for each call."""

    choices: Choices
    desk: ClusterDesk
    request: MapRequest
    devices: dict[str, Any]
    template: CommandTemplate
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shared = self.desk.open().shared_folder is not None
        wrong = [name for name in ("worker", "cpu", "bind") if getattr(self.request, name)]
        wrong += ["image"] if shared and self.request.image else []
        wrong += ["per-gpu"] if self.request.per_gpu > 1 else []
        if wrong:
            raise Invalid(f"--{wrong[0]} is for a map on this machine", hint="leave out it or --on")

    def pool(
        self, plan: MapPlan, workers: int | None, sampler: Sampler, notify: Notify
    ) -> WorkerPool:
        request = self.request
        device_request = request_from(
            {**self.devices, "gpus": str(request.gpus_per_worker), "unbalanced": False}
        )
        spec = partial(local_spec, request=device_request, name=request.title, git=False)
        gpus = None if request.gpus is None else max(1, request.gpus // request.gpus_per_worker)
        shared = self.desk.open().shared_folder
        if shared is not None:
            spec = partial(spec, environment=module_environment())
        else:
            container = {} if request.image is None else to_json(request.image)
            spec = partial(spec, for_seconds=request.item_timeout, container=container)
        jobs = MapJobs(self.desk, spec, self.options)
        indices = () if shared is None else (0,)
        refuse(self.desk, [jobs.submission(request.command, indices=indices)])
        self.desk.latest()  # one that does not answer is refused before anything is recorded
        if shared is not None:
            many = workers or min(gpus or self._all(), plan.waiting, MOST_WORKERS)
            return BlockPool(jobs, plan, notify, self._shared(plan, many), Path(shared), many)
        caller, name = JobCaller(jobs, plan, notify, self._command), self.desk.name
        most = CpuPlaces(workers or min(gpus or MOST_JOBS, MOST_JOBS))
        pool = MapPool(plan, most, caller.of, notify, lambda _: MapPlace(name))
        pool.unsampled = f"no device was read on {name}"
        return pool

    def where(self, pool: WorkerPool, found: Sequence[Placement], recorder: RunRecorder) -> str:
        return self.desk.name + (f", {len(found)} at once" if len(found) > 1 else "")

    def _command(self, unit: MapUnit) -> Sequence[str]:
        return self.template.command(unit.items, FIRST_GPU)

    def _all(self) -> int:
        nodes = [node for node in self.desk.nodes() if node.usable]
        return max(1, sum(node.gpus // self.request.gpus_per_worker for node in nodes))

    def _shared(self, plan: MapPlan, workers: int) -> SharedPlan:
        units = plan.units
        return SharedPlan(
            self.template,
            units,
            block_size(len(units), workers),
            self.request.policy.retries,
            settings_of(self.choices).work_grace_seconds,
            self.request.item_timeout,
        )
