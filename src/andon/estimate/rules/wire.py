"""An estimate as JSON, `andon.estimate/1`."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Struct

from andon.estimate.rules.engines import TITLES
from andon.estimate.rules.estimating import Estimate, verdict_text
from andon.estimate.rules.fits import GpuFit, SmallestSize
from andon.estimate.rules.learned import LearnedPeak
from andon.estimate.rules.options import PARALLEL, ServingEngine
from andon.estimate.rules.serving import stored_as
from andon.estimate.rules.shape import FactSource
from andon.model.codec import JsonDocument
from andon.model.shapes import Doc

Bytes = Annotated[int, Doc("of the fullest GPU")]


class EstimatedGpu(Struct, frozen=True):
    """What one GPU of the group holds."""

    weights_bytes: Bytes
    kv_bytes: Annotated[int | None, Doc("null in training, and if the shape is not known")]
    activations_bytes: Annotated[int | None, Doc("null if the shape is not known")]
    overhead_bytes: int
    gradients_bytes: Annotated[int | None, Doc("only in training")]
    optimizer_bytes: int | None
    minimum_bytes: int
    comfortable_bytes: int
    claim_bytes: Annotated[int | None, Doc("what the server takes of the smallest chosen GPU")]


class EstimatedSizes(Struct, frozen=True):
    """The same now, and when the GPUs are empty."""

    now: SmallestSize | None
    empty: SmallestSize | None


class RefusedSize(Struct, frozen=True):
    """Why the engine does not start, and the nearest sizes that it takes."""

    engine: str
    option: str
    reason: str
    nearest: list[int]


class EstimatedFrom(Struct, frozen=True):
    """Where a number comes from."""

    source: str
    confidence: str


class EstimatedPeak(Struct, frozen=True):
    """What earlier runs of the same command used."""

    runs: int
    peak_bytes: int
    latest: float
    by_model: Mapping[str, int]


class EstimateAnswer(JsonDocument, frozen=True):
    """How much memory a model needs, and which GPUs it fits on."""

    schema = "andon.estimate/1"
    model: str
    source: str
    confidence: str
    engine: str | None
    verdict: Annotated[str, Doc("the answer in one sentence")]
    world_size: int
    sizes: Mapping[str, int] | None
    parameters: int | None
    format: str | None
    context: int | None
    per_gpu: Annotated[EstimatedGpu | None, Doc("null if the sizes are refused")]
    requests_at_once: int | None
    sources: Mapping[str, EstimatedFrom]
    refused: RefusedSize | None
    elsewhere: Annotated[bool, Doc("whether the GPUs are those of on_gpus, not this node's")]
    fits_now: bool | None
    fits_empty: bool | None
    fits: list[GpuFit]
    smallest: EstimatedSizes
    learned: EstimatedPeak | None
    run: Annotated[str | None, Doc("the command to type")]
    notes: list[str]
    understood: Annotated[str | None, Doc("of a command line or a task, in one sentence")]


def estimate_answer(found: Estimate, understood: str | None) -> EstimateAnswer:
    facts, need, options = found.facts, found.need, found.options
    measured = facts.source is FactSource.RUNS
    return EstimateAnswer(
        model=facts.name,
        source=facts.source,
        confidence=facts.confidence,
        engine=None if measured else options.engine,
        verdict=verdict_text(found),
        world_size=found.world_size,
        sizes=None if measured else {name: getattr(options, name) for name in PARALLEL},
        parameters=facts.parameters,
        format=None if measured else stored_as(facts, options).label,
        context=None if need is None else need.context,
        per_gpu=_per_gpu(found),
        requests_at_once=_at_once(found),
        sources={
            name: EstimatedFrom(one.source, one.confidence) for name, one in found.sources.items()
        },
        refused=_refused(found),
        elsewhere=found.is_elsewhere,
        fits_now=found.fits_now,
        fits_empty=found.fits_empty,
        fits=list(found.fits),
        smallest=EstimatedSizes(found.smallest_now, found.smallest_empty),
        learned=_learned(found.learned),
        run=found.run,
        notes=list(found.notes),
        understood=understood,
    )


def _per_gpu(found: Estimate) -> EstimatedGpu | None:
    need = found.need
    if need is None:
        return None
    trains, shaped = found.options.engine is ServingEngine.TRAINING, found.facts.shape is not None
    return EstimatedGpu(
        weights_bytes=need.weights_bytes,
        kv_bytes=need.kv_bytes if shaped and not trains else None,
        activations_bytes=need.activations_bytes if shaped else None,
        overhead_bytes=need.overhead_bytes,
        gradients_bytes=need.gradients_bytes if trains else None,
        optimizer_bytes=need.optimizer_bytes if trains else None,
        minimum_bytes=need.minimum_bytes,
        comfortable_bytes=need.comfortable_bytes,
        claim_bytes=found.claim_bytes,
    )


def _at_once(found: Estimate) -> int | None:
    """Returns how many requests run at once on the GPU that holds the fewest."""
    known = (fit.requests_at_once for fit in found.fits if fit.fits_empty)
    return min((count for count in known if count is not None), default=None)


def _refused(found: Estimate) -> RefusedSize | None:
    refused = found.refused
    if refused is None:
        return None
    title = TITLES[found.options.engine]
    return RefusedSize(title, refused.option, refused.reason, list(refused.nearest))


def _learned(found: LearnedPeak | None) -> EstimatedPeak | None:
    if found is None:
        return None
    return EstimatedPeak(found.runs, found.peak_bytes, found.latest, dict(found.models))
