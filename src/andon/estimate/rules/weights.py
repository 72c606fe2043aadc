"""The weights of a model, part by part: how many there are, and what each GPU holds of them."""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from andon.estimate.rules.shape import BITS_PER_BYTE, ModelShape, WeightFormat, share, whole

VOCAB_MULTIPLE = 64  # engines pad the vocabulary
ATTENTION_PARTS = ("attention", "keys and values", "compression")


class WeightSplit(StrEnum):
    """How a part is divided among the GPUs of a tensor-parallel group."""

    TENSOR = "tensor"
    ATTENTION = "attention"
    KV = "kv"  # by heads of keys and values; copied where there are fewer heads than GPUs
    EXPERT = "expert"
    WHOLE = "whole"  # every GPU has all of it


class PipelineStage(StrEnum):
    """Which GPUs of a pipeline hold a part."""

    LAYERS = "layers"  # a share of it each
    FIRST = "first"
    LAST = "last"


class WeightPart(Struct, frozen=True):
    """Weights that are stored and split alike, in all layers together."""

    name: str
    elements: int
    split: WeightSplit
    is_linear: bool = True
    stage: PipelineStage = PipelineStage.LAYERS


class WeightSplits(Struct, frozen=True):
    """The number of GPUs by which each kind of part is divided."""

    tensor: int = 1
    pipeline: int = 1
    experts: int = 1
    attention: int = 1


ONE_GPU = WeightSplits()


def weight_parts(shape: ModelShape) -> Iterator[WeightPart]:
    """Yields every weight of the model."""
    vocabulary = shape.vocab * shape.hidden
    first, last = PipelineStage.FIRST, PipelineStage.LAST
    yield WeightPart("embeddings", vocabulary, WeightSplit.TENSOR, False, first)
    if not shape.is_tied:
        yield WeightPart("head", vocabulary, WeightSplit.TENSOR, False, last)
    if shape.positions:
        elements = shape.positions * shape.hidden
        yield WeightPart("positions", elements, WeightSplit.WHOLE, False, first)
    if shape.other_parameters:
        yield WeightPart("tower", shape.other_parameters, WeightSplit.WHOLE, False, first)
    yield from _attention(shape)
    yield from _feed_forward(shape)
    norms = shape.layers * (2 * shape.hidden + _head_norms(shape)) + shape.hidden
    yield WeightPart("norms", norms, WeightSplit.WHOLE, False)


def _head_norms(shape: ModelShape) -> int:
    if shape.latent is not None:
        return shape.latent.kv_rank + (shape.latent.query_rank or 0)
    return 2 * shape.head_dim if shape.has_qk_norm else 0


def _attention(shape: ModelShape) -> Iterator[WeightPart]:
    width, hidden, layers = shape.query_width, shape.hidden, shape.layers
    if shape.latent is None:
        both = 2 * hidden * width * layers
        yield WeightPart("attention", both, WeightSplit.ATTENTION)
        kv = 2 * hidden * shape.head_dim * shape.kv_heads_in_all
        yield WeightPart("keys and values", kv, WeightSplit.KV)
        if shape.has_qkv_bias:
            biases = width * layers + 2 * shape.head_dim * shape.kv_heads_in_all
            yield WeightPart("biases", biases, WeightSplit.WHOLE, False)
        return
    latent, heads = shape.latent, shape.heads
    per_head = latent.nope_dim + latent.rope_dim
    compressed = hidden * (latent.kv_rank + latent.rope_dim)
    if latent.query_rank is None:
        queries = hidden * heads * per_head
    else:
        queries = latent.query_rank * heads * per_head
        compressed += hidden * latent.query_rank
    values = latent.kv_rank * heads * (latent.nope_dim + latent.value_dim)
    out = heads * latent.value_dim * hidden
    yield WeightPart("compression", compressed * layers, WeightSplit.WHOLE)
    yield WeightPart("attention", (queries + values + out) * layers, WeightSplit.ATTENTION)


def _feed_forward(shape: ModelShape) -> Iterator[WeightPart]:
    matrices, hidden = (3 if shape.is_gated else 2), shape.hidden
    if shape.dense_layers:
        elements = matrices * hidden * shape.intermediate * shape.dense_layers
        yield WeightPart("feed-forward", elements, WeightSplit.TENSOR)
    experts = shape.experts
    if experts is None:
        return
    one = matrices * hidden * experts.intermediate
    yield WeightPart("experts", one * experts.count * experts.layers, WeightSplit.EXPERT)
    if experts.shared_intermediate:
        shared = matrices * hidden * experts.shared_intermediate * experts.layers
        yield WeightPart("shared experts", shared, WeightSplit.TENSOR)
    yield WeightPart("router", hidden * experts.count * experts.layers, WeightSplit.WHOLE, False)


def parameters(shape: ModelShape) -> int:
    """Returns how many parameters the model has."""
    return sum(part.elements for part in weight_parts(shape))


def linear_parameters(shape: ModelShape) -> int:
    """Returns the parameters of the linear layers, without embeddings and head."""
    return sum(part.elements for part in weight_parts(shape) if part.is_linear)


def weights_bytes(shape: ModelShape, stored: WeightFormat, splits: WeightSplits = ONE_GPU) -> int:
    """Returns what the fullest GPU holds."""
    stages = dict.fromkeys(PipelineStage, 0.0)
    for part in weight_parts(shape):
        elements = part.elements / _divisor(part.split, shape, splits)
        if part.name in ("embeddings", "head"):
            padded = share(shape.vocab, VOCAB_MULTIPLE) * VOCAB_MULTIPLE
            elements *= padded / shape.vocab
        stages[part.stage] += elements * _bits(part, stored) / BITS_PER_BYTE
    layers = stages[PipelineStage.LAYERS]
    first, last = stages[PipelineStage.FIRST], stages[PipelineStage.LAST]
    if splits.pipeline == 1:
        return whole(layers + first + last)
    if shape.is_tied:
        last = first  # the last stage has a copy of its own
    largest = layers * share(shape.layers, splits.pipeline) / shape.layers
    return whole(largest + max(first, last))


def _bits(part: WeightPart, stored: WeightFormat) -> float:
    if stored.packs_all:
        return stored.linear_bits
    packed = part.is_linear and (part.split is WeightSplit.EXPERT or not stored.experts_only)
    if stored.plain_attention and part.name in ATTENTION_PARTS:
        packed = False
    return stored.linear_bits if packed else stored.plain_bits


def _divisor(split: WeightSplit, shape: ModelShape, splits: WeightSplits) -> float:
    match split:
        case WeightSplit.TENSOR:
            return splits.tensor
        case WeightSplit.ATTENTION:
            return splits.attention
        case WeightSplit.KV:
            return shape.kv_heads / max(1, shape.kv_heads // splits.attention)
        case WeightSplit.EXPERT:
            return splits.experts
        case WeightSplit.WHOLE:
            return 1
