"""What one GPU needs to serve a model: weights, cache, activations and overhead."""

from msgspec import Struct

from andon.estimate.rules.engines import splits_of, world_size
from andon.estimate.rules.options import EstimateOptions, ServingEngine
from andon.estimate.rules.quantisation import AUTO, cache_bits, plain, plain_bits, requested_format
from andon.estimate.rules.shape import (
    BITS_PER_BYTE,
    ModelFacts,
    ModelShape,
    WeightFormat,
    share,
    whole,
)
from andon.estimate.rules.weights import ONE_GPU, parameters, weights_bytes
from andon.units import GIB, MIB

# The cache of keys and values that a server keeps for the tokens of its requests.


def kv_bytes_per_token(shape: ModelShape, kv_bits: float, attention: int = 1) -> float:
    """Returns the bytes of one token in one layer on one GPU, on average; latent attention is
    not divided."""
    if shape.latent is not None:
        return (shape.latent.kv_rank + shape.latent.rope_dim) * kv_bits / BITS_PER_BYTE
    each = shape.kv_heads_by_layer or (shape.kv_heads,)
    heads = sum(max(1, count // attention) for count in each if count) / len(each)
    return 2 * shape.head_dim * heads * kv_bits / BITS_PER_BYTE


def kv_bytes(
    shape: ModelShape,
    tokens: int,
    kv_bits: float,
    *,
    attention: int = 1,
    pipeline: int = 1,
    context_parallel: int = 1,
) -> int:
    """Returns the cache of one request of this length on the fullest GPU.

    A layer with a sliding window keeps only the window. Context parallelism divides the tokens.
    """
    windowed = min(shape.windowed_layers, shape.layers)
    held = tokens if shape.window is None else min(tokens, shape.window)
    both = (shape.layers - windowed) * share(tokens, context_parallel)
    both += windowed * share(held, context_parallel)
    layers = share(shape.layers, pipeline) / shape.layers
    return whole(both * layers * kv_bytes_per_token(shape, kv_bits, attention))


CONTEXT_BYTES = 512 * MIB
"""What CUDA itself takes in each process (619 MiB were measured on an H200)."""
ALONE_BYTES, TOGETHER_BYTES = round(0.14 * GIB), round(0.55 * GIB)
NCCL_BYTES = 392 * 10**6
GRAPH_BYTES = GIB
"""CUDA graphs take up to this much; a server starts without them."""
SPARE = 0.1
BATCHED_TOKENS = 8192
ASSUMED_CONTEXT = 8192
_FACTORS = ((4, 5), (2, 6), (1, 10))
"""Activations per token in multiples of the queries' width, from this many GPUs on."""
_SHARES = {ServingEngine.VLLM: 0.9, ServingEngine.SGLANG: 0.88, ServingEngine.TRTLLM: 0.9}


class GpuNeed(Struct, frozen=True):
    """What the fullest GPU of a group holds, in bytes."""

    weights_bytes: int
    kv_bytes: int  # of all requests that were asked for
    activations_bytes: int
    overhead_bytes: int
    request_bytes: int = 0  # of the cache: one request
    graph_bytes: int = 0
    gradients_bytes: int = 0
    optimizer_bytes: int = 0
    context: int = 0  # the tokens of a request
    assumed: tuple[str, ...] = ()  # what was not given

    @property
    def fixed_bytes(self) -> int:
        """Returns the memory without the cache."""
        held = self.weights_bytes + self.activations_bytes + self.overhead_bytes
        return held + self.gradients_bytes + self.optimizer_bytes

    @property
    def minimum_bytes(self) -> int:
        """Returns the memory with which one request of full length is served."""
        return self.fixed_bytes + self.request_bytes

    @property
    def comfortable_bytes(self) -> int:
        """The memory for all requests at once, CUDA graphs and some spare."""
        return whole((self.fixed_bytes + self.kv_bytes + self.graph_bytes) * (1 + SPARE))


def stored_as(facts: ModelFacts, options: EstimateOptions) -> WeightFormat:
    """Returns how the engine holds the weights: packed as they are, unless an option changes
    that."""
    if options.quantization is not None and not facts.stored.is_packed:
        return requested_format(options.quantization)
    if options.dtype is not None and options.dtype != AUTO:
        bits = plain_bits(options.dtype)
        if facts.stored.is_packed:
            return facts.stored
        return WeightFormat(bits, float(bits), options.dtype.removeprefix("torch."))
    if options.engine.is_server and facts.stored.label == "float32":
        return plain("float16")  # they load float32 as 16 bits
    return facts.stored


def model_weights_bytes(facts: ModelFacts, options: EstimateOptions) -> int:
    """Returns what the fullest GPU holds: the bytes of the files, divided by the shape.

    A name gives a size and no shape of its own: the typical shape is stretched to it.
    """
    shape, splits = facts.shape, splits_of(options)
    held = stored_as(facts, options)
    if shape is None:
        stored = facts.weights_bytes or 0
        return whole(stored / (splits.tensor * splits.pipeline))
    computed = weights_bytes(shape, held, splits)
    if facts.weights_bytes is not None:
        return whole(computed * facts.weights_bytes / weights_bytes(shape, facts.stored, ONE_GPU))
    if facts.parameters is not None:
        return whole(computed * facts.parameters / parameters(shape))
    return computed


def serving_need(facts: ModelFacts, options: EstimateOptions) -> GpuNeed:
    """Returns what one GPU of the group needs."""
    shape, assumed = facts.shape, list[str]()
    context = options.context or (shape.context if shape else None)
    request = 0
    if context is None:
        context = ASSUMED_CONTEXT
        if shape is not None:
            assumed.append(f"{context} tokens of context are assumed")
    if shape is None:
        assumed.append("KV cache and activations are not known without the model's shape")
    else:
        request = _request_bytes(shape, context, options, facts)
    return GpuNeed(
        weights_bytes=model_weights_bytes(facts, options),
        kv_bytes=request * _requests_per_gpu(options),
        activations_bytes=0 if shape is None else _activations(shape, context, options),
        overhead_bytes=overhead_bytes(options),
        request_bytes=request,
        graph_bytes=0 if options.eager or not options.engine.is_server else GRAPH_BYTES,
        context=context,
        assumed=tuple(assumed),
    )


def _requests_per_gpu(options: EstimateOptions) -> int:
    """Returns the requests of one GPU: data-parallel replicas share them."""
    return -(-(options.requests or 1) // options.dp)


def _request_bytes(
    shape: ModelShape, context: int, options: EstimateOptions, facts: ModelFacts
) -> int:
    if options.kv_dtype is None or options.kv_dtype == AUTO:
        bits: float = 16 if options.engine.is_server else stored_as(facts, options).plain_bits
    else:
        bits = cache_bits(options.kv_dtype)
    divided = options.dcp if options.engine is ServingEngine.VLLM else 1
    if options.engine is ServingEngine.TRTLLM:
        divided = options.cp
    return kv_bytes(
        shape,
        context,
        bits,
        attention=splits_of(options).attention,
        pipeline=options.pp,
        context_parallel=divided,
    )


def _activations(shape: ModelShape, context: int, options: EstimateOptions) -> int:
    """Returns the activations: Transformers computes a whole prompt at once, servers a bounded
    number of tokens."""
    tokens = options.batched_tokens or BATCHED_TOKENS
    if options.engine is ServingEngine.TRANSFORMERS:
        tokens = context * _requests_per_gpu(options)
    factor = next(factor for gpus, factor in _FACTORS if options.tp >= gpus)
    return 2 * tokens * shape.query_width * factor


def overhead_bytes(options: EstimateOptions) -> int:
    """Returns the memory of CUDA itself, and of the communication between the GPUs of a group."""
    if world_size(options) == 1:
        return CONTEXT_BYTES + ALONE_BYTES
    return CONTEXT_BYTES + TOGETHER_BYTES + NCCL_BYTES


def claimed_bytes(need: GpuNeed, options: EstimateOptions, total: int, usable: int) -> int | None:
    """Returns what a server takes of an otherwise empty GPU of this size; None for other
    engines."""
    if not options.engine.is_server:
        return None
    fraction = options.utilization or _SHARES[options.engine]
    match options.engine:
        case ServingEngine.VLLM:
            claimed = total * fraction
        case ServingEngine.SGLANG:  # its share is weights and cache; the rest comes on top
            claimed = total * fraction + need.activations_bytes + need.overhead_bytes
        case _:  # TensorRT-LLM takes a share of what is left
            claimed = need.fixed_bytes + max(0, usable - need.fixed_bytes) * fraction
    return min(whole(claimed), usable)


def requests_at_once(need: GpuNeed, claim: int, options: EstimateOptions) -> int | None:
    """Returns how many requests of full length the cache holds; None if that is unknown."""
    if not need.request_bytes:
        return None
    capacity = claim - need.fixed_bytes
    fitting = max(0, capacity // need.request_bytes) * options.dp
    return min(fitting, options.requests) if options.requests and fitting else fitting
