"""An estimate as JSON, `andon.estimate/1`."""

from msgspec import to_builtins

from andon.estimate.rules.engines import TITLES
from andon.estimate.rules.estimating import Estimate, verdict_words
from andon.estimate.rules.fits import GpuFit
from andon.estimate.rules.learned import LearnedPeak
from andon.estimate.rules.options import PARALLEL, ServingEngine
from andon.estimate.rules.serving import stored_as
from andon.estimate.rules.shape import FactSource
from andon.model.shapes import to_json
from andon.model.wire import Json

ESTIMATE = "andon.estimate/1"
FIT_WITHOUT = ("vendor",)


def estimate_to_json(found: Estimate) -> Json:
    facts, need, options = found.facts, found.need, found.options
    measured = facts.source is FactSource.RUNS
    return {
        "schema": ESTIMATE,
        "model": facts.name,
        "source": str(facts.source),
        "confidence": str(facts.confidence),
        "engine": None if measured else str(found.options.engine),
        "verdict": verdict_words(found),
        "world_size": found.world_size,
        "sizes": None if measured else {name: getattr(options, name) for name in PARALLEL},
        "parameters": facts.parameters,
        "format": None if measured else stored_as(facts, options).label,
        "context": None if need is None else need.context,
        "per_gpu": _per_gpu(found),
        "requests_at_once": _at_once(found),
        "sources": {
            name: {"source": str(one.source), "confidence": str(one.confidence)}
            for name, one in found.sources.items()
        },
        "refused": None
        if found.refused is None
        else {
            "engine": TITLES[found.options.engine],
            "option": found.refused.option,
            "reason": found.refused.reason,
            "nearest": list(found.refused.nearest),
        },
        "elsewhere": found.is_elsewhere,
        "fits_now": found.fits_now,
        "fits_empty": found.fits_empty,
        "fits": [_fit(fit) for fit in found.fits],
        "smallest": {
            "now": to_json(found.smallest_now),
            "empty": to_json(found.smallest_empty),
        },
        "learned": _learned(found.learned),
        "run": found.run,
        "notes": list(found.notes),
    }


def _per_gpu(found: Estimate) -> Json | None:
    need = found.need
    if need is None:
        return None
    trains, shaped = found.options.engine is ServingEngine.TRAINING, found.facts.shape is not None
    return {
        "weights_bytes": need.weights_bytes,
        "kv_bytes": need.kv_bytes if shaped and not trains else None,
        "activations_bytes": need.activations_bytes if shaped else None,
        "overhead_bytes": need.overhead_bytes,
        "gradients_bytes": need.gradients_bytes if trains else None,
        "optimizer_bytes": need.optimizer_bytes if trains else None,
        "minimum_bytes": need.minimum_bytes,
        "comfortable_bytes": need.comfortable_bytes,
        "claim_bytes": found.claim_bytes,
    }


def _at_once(found: Estimate) -> int | None:
    """Returns how many requests run at once on the GPU that holds the fewest."""
    known = (fit.requests_at_once for fit in found.fits if fit.fits_empty)
    return min((count for count in known if count is not None), default=None)


def _fit(fit: GpuFit) -> Json:
    return {k: v for k, v in to_builtins(fit).items() if k not in FIT_WITHOUT}


def _learned(found: LearnedPeak | None) -> Json | None:
    if found is None:
        return None
    return {
        "runs": found.runs,
        "peak_bytes": found.peak_bytes,
        "latest": found.latest,
        "by_model": dict(found.models),
    }
