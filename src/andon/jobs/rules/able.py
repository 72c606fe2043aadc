"""Compares what jobs ask for with what a desk can do, and refuses the rest in one sentence."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from andon.errors import Invalid
from andon.jobs.rules.job_options import JOB_OPTIONS
from andon.model.job.desk import Able, Submission


def _field(name: str, one: Submission) -> Any:
    return getattr(one.job, name)


def _user(one: Submission) -> str:
    return str(one.job.container.get("user") or "")


NEEDS: Mapping[Able, tuple[str, Callable[[Submission], Any]]] = {
    Able.ENGINE_OPTIONS: ("--engine-option", lambda one: one.options),
    Able.PER_GPU: ("--per-gpu", lambda one: one.per_gpu),
    Able.AFTER: ("--after and --after-any", lambda one: one.after or one.after_any),
    Able.BEGIN: ("--begin", lambda one: one.job.begin_at is not None),
    Able.ARRAY: ("--array", lambda one: one.indices),
    Able.ARRAY_LIMIT: ("an array with a limit", lambda one: one.limit is not None),
    Able.MEMORY: ("--memory", lambda one: one.job.request.memory_bytes is not None),
    Able.SHARED: ("--shared", lambda one: one.job.request.shared),
    Able.MODEL: ("--model", lambda one: one.job.request.models),
    Able.MODELS: ("several models", lambda one: len(one.job.request.models) > 1),
    Able.DEVICES: (
        "--device, --exclude, --prefer and --label",
        lambda one: (
            (request := one.job.request).devices
            or request.exclude
            or request.prefer
            or request.labels
        ),
    ),
    Able.EVERY_GPU: ("--gpus all", lambda one: one.job.request.every),
    Able.GPU_RANGE: (
        "a range of GPUs",
        lambda one: one.job.request.least != one.job.request.most,
    ),
    Able.PRIORITY: ("--priority", lambda one: one.job.request.priority),
    Able.IMAGE: ("--image", lambda one: one.job.container),
    Able.MOUNTS: ("--mount and --model-folder", lambda one: one.job.container.get("mounts")),
    Able.CONTAINER_OPTIONS: ("--container-option", lambda one: one.job.container.get("options")),
    Able.USER_BY_NAME: (
        "--container-user by name",
        lambda one: _user(one) and not _user(one).isdecimal(),
    ),
    **{
        row.able: (row.word, partial(_field, row.name))
        for row in JOB_OPTIONS
        if row.of_spec and row.able
    },
}
"""By ability: what needs it, as people write it, and whether a job does."""


class SubmitDesk(Protocol):
    """A desk that takes submissions."""

    @property
    def able(self) -> frozenset[Able]: ...

    def refusal(self, able: Able, option: str) -> Invalid:
        """Returns the error for something it cannot do; `option` names that as people write it."""


def refuse(desk: SubmitDesk, jobs: Sequence[Submission]) -> None:
    """Raises Invalid for the first thing that the desk cannot do, with what to use instead."""
    able = desk.able
    for one, (option, given) in NEEDS.items():
        if one not in able and any(map(given, jobs)):
            raise desk.refusal(one, option)
