"""How each engine spreads a model over GPUs: the world size, the splits, and what it refuses."""

from collections.abc import Iterator

from msgspec import Struct

from andon.estimate.rules.options import EstimateOptions, ServingEngine, with_size
from andon.estimate.rules.shape import ModelShape, WeightFormat
from andon.estimate.rules.weights import WeightSplits

MOST_TRIED = 1024
TITLES = {
    ServingEngine.VLLM: "vLLM",
    ServingEngine.SGLANG: "SGLang",
    ServingEngine.TRTLLM: "TensorRT-LLM",
    ServingEngine.TRANSFORMERS: "Transformers",
    ServingEngine.TRAINING: "Training",
}
_NOT_USED = {
    ServingEngine.SGLANG: ("cp", "dcp"),
    ServingEngine.TRTLLM: ("dp", "dcp"),
    ServingEngine.TRANSFORMERS: ("dp", "cp", "dcp"),
    ServingEngine.TRAINING: ("dcp",),
}


class SizeRefusal(Struct, frozen=True):
    """Why an engine does not start with these sizes, and the nearest that it takes."""

    option: str
    reason: str
    nearest: tuple[int, ...] = ()


def world_size(options: EstimateOptions) -> int:
    """Returns how many GPUs the engine uses; vLLM's dcp ranks are among the tensor ranks."""
    both = options.tp * options.pp
    match options.engine:
        case ServingEngine.VLLM | ServingEngine.TRAINING:
            return both * options.cp * options.dp
        case ServingEngine.SGLANG:
            return both * (1 if options.dp_attention else options.dp)
        case ServingEngine.TRTLLM:
            return both * options.cp
        case ServingEngine.TRANSFORMERS:
            return both


def unused_sizes(options: EstimateOptions) -> tuple[str, ...]:
    """Returns the given sizes that this engine does not have."""
    names = _NOT_USED.get(options.engine, ())
    return tuple(name for name in names if getattr(options, name) > 1)


def splits_of(options: EstimateOptions) -> WeightSplits:
    """Returns by how many GPUs each kind of weight is divided."""
    attention = options.tp
    if options.engine is ServingEngine.SGLANG and options.dp_attention:
        attention = max(1, options.tp // options.dp)
    experts = options.tp
    if options.expert_parallel and options.engine is ServingEngine.VLLM:
        experts = options.tp * options.dp * options.cp
    return WeightSplits(options.tp, options.pp, experts, attention)


def refusal(
    shape: ModelShape | None, stored: WeightFormat, options: EstimateOptions
) -> SizeRefusal | None:
    """Returns why the engine would refuse to start; None if it starts."""
    found = next(_mistakes(shape, stored, options), None)
    if found is None:
        return None
    name, reason = found
    return SizeRefusal(name, reason, _nearest(name, shape, stored, options))


def _nearest(
    name: str, shape: ModelShape | None, stored: WeightFormat, options: EstimateOptions
) -> tuple[int, ...]:
    if name == "context":
        return () if shape is None or shape.context is None else (shape.context,)

    def works(size: int) -> bool:
        tried = with_size(options, name, size)
        return next(_mistakes(shape, stored, tried), None) is None

    given: int = getattr(options, name)
    below = next((size for size in range(min(given, MOST_TRIED) - 1, 0, -1) if works(size)), None)
    above = next((s for s in range(given + 1, min(4 * given, MOST_TRIED) + 1) if works(s)), None)
    return tuple(size for size in (below, above) if size is not None)


def _mistakes(
    shape: ModelShape | None, stored: WeightFormat, options: EstimateOptions
) -> Iterator[tuple[str, str]]:
    """Yields each wrong option and the engine's reason."""
    tp = options.tp
    if options.engine is ServingEngine.SGLANG and options.dp_attention and tp % options.dp:
        yield "dp", f"data-parallel attention: tp ({tp}) must be divisible by dp ({options.dp})"
    if options.engine is ServingEngine.VLLM and tp % options.dcp:
        yield "dcp", f"tp ({tp}) must be divisible by the decode-context size ({options.dcp})"
    if shape is None:
        return
    yield from _heads(shape, splits_of(options).attention)
    if tp > 1 and options.engine is not ServingEngine.TRAINING:
        yield from _alignment(shape, stored, tp)
    if options.pp > shape.layers:
        yield "pp", f"{options.pp} pipeline stages for {shape.layers} layers"
    longest, wanted = shape.context, options.context
    if options.engine.is_server and longest and wanted is not None and wanted > longest:
        yield "context", f"{wanted} tokens, and the model was made for {longest}"


def _heads(shape: ModelShape, tp: int) -> Iterator[tuple[str, str]]:
    if shape.heads % tp:
        yield "tp", f"{shape.heads} attention heads cannot be divided by tensor-parallel size {tp}"
    elif shape.latent is None and shape.kv_heads % tp and tp % shape.kv_heads:
        yield (
            "tp",
            f"{shape.kv_heads} key/value heads can be neither divided by nor copied to "
            f"tensor-parallel size {tp}",
        )


def _alignment(shape: ModelShape, stored: WeightFormat, tp: int) -> Iterator[tuple[str, str]]:
    """Yields the mistakes of packed weights, which are cut only between groups with one scale."""
    widths = [shape.intermediate] if shape.dense_layers and not stored.experts_only else []
    if shape.experts is not None:
        widths.append(shape.experts.intermediate)
    for width in widths:
        if width % tp:
            yield "tp", f"a feed-forward width of {width} cannot be divided by {tp}"
        elif stored.group and not stored.experts_only and (width // tp) % stored.group:
            unit = "blocks" if stored.is_block else "groups"
            yield (
                "tp",
                f"{stored.label} has {unit} of {stored.group}; a width of {width // tp} "
                f"(of {width} on {tp} GPUs) cuts through one",
            )
