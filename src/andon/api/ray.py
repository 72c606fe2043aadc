"""`from andon import ray as andon_ray`: tasks and actors of a Ray program, leased and recorded.

Each takes a lease on the GPUs that Ray gave it, never on more, and is a run that is part of the
driver's. Outside of a Ray worker nothing changes, and nothing here imports Ray but `prefer_idle`.
"""

import atexit
import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar, overload

from andon.api.around import BlockingScope, P, R, around
from andon.api.ray_worker import CallRun, DeviceBusy, current_call, this_worker
from andon.api.run import current_run
from andon.app.clusters import cluster_desk
from andon.app.settings import load_settings
from andon.errors import AndonError, Invalid
from andon.jobs.rules.best_nodes import IdleLimits, best_nodes
from andon.settings.clusters import ClusterSettings

__all__ = ["DeviceBusy", "actor", "prefer_idle", "task"]

C = TypeVar("C", bound=type)


@overload
def task(name: Callable[P, R]) -> Callable[P, R]: ...
@overload
def task(
    name: str | None = None, refuse_busy: bool = False
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def task(name: Any = None, refuse_busy: bool = False) -> Any:
    """Each call of a function in a Ray worker has a lease on its GPUs and is a run:
    `@ray.remote(num_gpus=1)` above `@andon_ray.task(name="embed", refuse_busy=True)`.

    With `refuse_busy` it raises DeviceBusy if someone else uses the device. A run is part of the
    one that the driver was in when it first called the function.
    """
    if callable(name):
        return around(name, _Decorated(name.__name__, refuse_busy))
    return lambda function: around(function, _Decorated(name or function.__name__, refuse_busy))


@overload
def actor(name: C) -> C: ...
@overload
def actor(name: str | None = None, refuse_busy: bool = False) -> Callable[[C], C]: ...


def actor(name: Any = None, refuse_busy: bool = False) -> Any:
    """The same for a class: one lease and one run from the creation of an actor to its end."""
    if isinstance(name, type):
        return _watched(name, _Decorated(name.__name__, refuse_busy))
    return lambda kind: _watched(kind, _Decorated(name or kind.__name__, refuse_busy))


def prefer_idle(gpus: int = 1) -> Any:
    """Returns a scheduling strategy that prefers the node whose free GPUs are really idle, and lets
    Ray choose where none is known: `embed.options(scheduling_strategy=prefer_idle()).remote(…)`."""
    from ray.util.scheduling_strategies import (  # type: ignore[import-not-found, unused-ignore]
        NodeAffinitySchedulingStrategy,
    )

    import ray  # type: ignore[import-not-found, unused-ignore]

    if gpus < 1:
        raise Invalid("a number of GPUs is at least 1", hint="prefer_idle(gpus=1)")
    names = _idle_nodes(gpus, ray._private.worker.get_dashboard_url())
    ids = {one["NodeName"]: one["NodeID"] for one in ray.nodes() if one["Alive"]}
    found = next((ids[name] for name in names if name in ids), None)
    return "DEFAULT" if found is None else NodeAffinitySchedulingStrategy(found, soft=True)


def _idle_nodes(gpus: int, address: str | None) -> list[str]:
    """Returns the idle nodes with room, best first, from the cluster of the settings or that of
    this program; none if it does not answer."""
    given = {} if address is None else {"address": address}
    known = (one for one in load_settings({}).settings.clusters if one.kind == "ray")
    try:
        cluster = cluster_desk(next(known, ClusterSettings("ray", "ray", options=given)))
        return [one.name for one in best_nodes(cluster.nodes(), gpus, IdleLimits())]
    except AndonError:
        return []


class _Decorated:
    """Makes the scope of each call; when Ray sends it to a worker, it carries the run of the
    driver."""

    def __init__(self, name: str, refuse_busy: bool, driver: str | None = None) -> None:
        self.name, self.refuse_busy, self.driver = name, refuse_busy, driver

    def __call__(self) -> BlockingScope:
        one = _Call(self)
        return BlockingScope(one.begin, one.end, one.step)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Decorated, (self.name, self.refuse_busy, current_run() or self.driver)


class _Call:
    """One call: its lease and its run; nothing outside of a Ray worker."""

    def __init__(self, about: _Decorated) -> None:
        self._about, self._call = about, current_call()
        self._run: CallRun | None = None

    def step(self) -> AbstractContextManager[None]:
        return nullcontext() if self._run is None else self._run.going_on()

    def begin(self) -> str | None:
        """Begins it; returns the id of its run."""
        if self._call is None:
            return None
        about, worker = self._about, this_worker()
        place = worker.enter(self._call, about.name, about.refuse_busy)
        try:
            run = CallRun(about.name, self._call, place, worker.actor or about.driver)
            run.start()
        except BaseException:
            worker.leave()
            raise
        self._run = run
        return run.id

    def end(self, error: BaseException | None = None) -> None:
        run, self._run = self._run, None
        if run is not None:
            this_worker().leave()  # first: others are waiting for it
            run.end(error)


def _watched(kind: C, about: _Decorated) -> C:
    """Returns the class, whose first object in a Ray worker begins the lease and the run."""
    create = kind.__init__  # type: ignore[misc]

    def created(self: Any, *args: Any, **kwargs: Any) -> None:
        if current_call() is None or this_worker().actor is not None:
            create(self, *args, **kwargs)
            return
        scope = _Call(about)
        this_worker().actor = scope.begin()
        try:
            create(self, *args, **kwargs)
        except BaseException as error:
            this_worker().actor = None
            scope.end(error)
            raise
        atexit.register(scope.end)

    if create is not object.__init__:  # whose signature Ray cannot add to
        created = functools.wraps(create)(created)
    kind.__init__ = created  # type: ignore[misc]
    return kind
