"""What one GPU needs to train a model: weights, gradients, optimiser states and activations.

The activations are those that PyTorch keeps for the backward pass of a Llama-like model written in
the usual way: attention keeps queries, keys, values, output and a logarithm per head; a norm its
input and its normalised output; the feed-forward part four tensors; the loss its logits in float32.
"""

from msgspec import Struct

from andon.estimate.rules.engines import world_size
from andon.estimate.rules.options import EstimateOptions, TrainingOptimizer, TrainingPrecision
from andon.estimate.rules.serving import (
    CONTEXT_BYTES,
    NCCL_BYTES,
    GpuNeed,
    model_weights_bytes,
)
from andon.estimate.rules.shape import BITS_PER_BYTE, ModelFacts, ModelShape, share, whole
from andon.estimate.rules.weights import linear_parameters, parameters
from andon.units import MIB

ASSUMED_SEQUENCE = 2048
WORKSPACE_BYTES = 64 * MIB  # of the matrix library
FULL, HALF = 4, 2
_LOSS = 12  # bytes per token and word: the result, its gradient, and that of the logits


class _Bytes(Struct, frozen=True):
    """Bytes of one element of each kind."""

    weight: int
    gradient: int
    state: float  # of the optimiser, all of them
    temporary: int  # while the optimiser steps
    compute: int  # activations
    residual: int  # the stream between layers


def _bytes(options: EstimateOptions) -> _Bytes:
    half = options.precision is TrainingPrecision.BF16
    weight = HALF if half else FULL
    state: float
    match options.optimizer:
        case TrainingOptimizer.ADAMW:
            state, temporary = 2.0 * weight, weight
        case TrainingOptimizer.ADAMW8BIT:
            state, temporary = 2.0, 0
        case TrainingOptimizer.SGD | TrainingOptimizer.ADAFACTOR:
            state, temporary = 0.0, 0
    compute = FULL if options.precision is TrainingPrecision.FP32 else HALF
    return _Bytes(weight, weight, state, temporary, compute, weight)


def training_need(facts: ModelFacts, options: EstimateOptions) -> GpuNeed:
    """Returns the peak of one training step, from the second one on."""
    shape, assumed = facts.shape, list[str]()
    sequence = options.sequence or options.context
    if sequence is None:
        sequence = min(ASSUMED_SEQUENCE, (shape.context if shape else None) or ASSUMED_SEQUENCE)
        assumed.append(f"sequences of {sequence} tokens are assumed")
    each = _bytes(options)
    groups = options.tp * options.pp
    total = (facts.parameters or (parameters(shape) if shape else _counted(facts))) / groups
    trained = total
    weights = total * each.weight
    if options.lora is not None:
        trained = (_adapters(shape, options.lora) if shape else total / 100) / groups
        weights = _frozen(facts, options) + trained * each.weight
        if shape is None:
            assumed.append("the adapters are taken as 1 % of the model")
    gradients, states = trained * each.gradient, trained * each.state
    weights, gradients, states = _sharded(weights, gradients, states, options)
    if shape is None:
        assumed.append("activations are not known without the model's shape, and are left out")
        activations = 0.0
    else:
        tokens = share(options.batch * sequence, options.cp)
        stepping = trained * each.temporary / (options.dp if options.zero else 1)
        activations = _beyond(shape, tokens, each, options, gradients, stepping)
    return GpuNeed(
        weights_bytes=whole(weights),
        kv_bytes=0,
        activations_bytes=whole(activations),
        overhead_bytes=CONTEXT_BYTES
        + WORKSPACE_BYTES
        + (NCCL_BYTES if world_size(options) > 1 else 0),
        gradients_bytes=whole(gradients),
        optimizer_bytes=whole(states),
        context=sequence,
        assumed=tuple(assumed),
    )


def _counted(facts: ModelFacts) -> int:
    """Returns the number of parameters for the bytes of files."""
    bits = facts.stored.linear_bits
    return round((facts.weights_bytes or 0) * BITS_PER_BYTE / bits)


def _sharded(
    weights: float, gradients: float, states: float, options: EstimateOptions
) -> tuple[float, float, float]:
    """Divides by ZeRO's stage: 1 divides the states (and the float32 copy of mixed precision), 2
    the gradients too, 3 everything: of mixed precision's 16 bytes a parameter 12, 14 and 16."""
    if not options.zero or options.dp == 1:
        return weights, gradients, states
    divided, ranks = options.zero, options.dp
    if options.precision is TrainingPrecision.MIXED and options.lora is None:
        states += weights  # the float32 copy; what computes is in 16 bits
        weights, gradients = weights / 2, gradients / 2
    states /= ranks
    if divided >= 2:
        gradients /= ranks
    if divided >= 3:
        weights /= ranks
    return weights, gradients, states


def _adapters(shape: ModelShape, rank: int) -> int:
    """Returns the parameters of adapters: two thin matrices beside every linear layer of the
    attention and the feed-forward part."""
    width, kv = shape.query_width, shape.kv_heads * shape.head_dim
    sides = 2 * (shape.hidden + width) + 2 * (shape.hidden + kv)
    sides += (3 if shape.is_gated else 2) * (shape.hidden + shape.intermediate)
    return rank * sides * shape.layers


def _frozen(facts: ModelFacts, options: EstimateOptions) -> float:
    """Returns the bytes of frozen weights: a packed model stays packed; another is held in 16
    bits unless everything is float32."""
    held = model_weights_bytes(facts, options)
    if facts.stored.is_packed or options.precision is not TrainingPrecision.FP32:
        return held
    return held * FULL * BITS_PER_BYTE / facts.stored.plain_bits


def _beyond(
    shape: ModelShape,
    tokens: int,
    each: _Bytes,
    options: EstimateOptions,
    gradients: float,
    stepping: float,
) -> float:
    """Returns the peak's memory beyond weights, gradients and states, which are counted in full.

    Gradients grow while activations shrink, so the peak is at one end of the backward pass or in
    the step of the optimiser.
    """
    layers = share(shape.layers, options.pp)
    one = _layer_activations(shape, tokens, each, options) / options.tp
    copies = 0.0
    if (
        options.precision is TrainingPrecision.MIXED and options.lora is None
    ):  # autocast keeps the weights in 16 bits
        copies = HALF * (linear_parameters(shape) + shape.vocab * shape.hidden)
        copies /= options.tp * options.pp
    inputs = tokens * shape.hidden * each.residual
    saved = layers * (inputs if options.gradient_checkpointing else one)
    logits = tokens * shape.vocab / options.tp
    norm = _norm(shape, each) * tokens
    forward = saved + norm + copies + logits * (each.compute + 2 * FULL)
    if each.compute == FULL:
        forward = saved + norm + copies + logits * 2 * FULL
    backward = saved + norm + logits * _LOSS
    backward += 0 if options.gradient_checkpointing else copies
    working = tokens * each.compute * (2 * _inner(shape) + shape.hidden) / options.tp
    again = one if options.gradient_checkpointing else 0
    last = saved + working + again + shape.vocab * shape.hidden * each.gradient / options.tp
    first = one + working + gradients * (1 - _yet_to_come(shape))
    return max(forward, backward, last, first, gradients + stepping) - gradients


def _yet_to_come(shape: ModelShape) -> float:
    """Returns the share of the gradients that do not exist yet while the first layer's
    feed-forward part is computed: those of the rest of that layer and of the embeddings."""
    layer = linear_parameters(shape) / shape.layers - shape.hidden * _inner(shape)
    embeddings = 0 if shape.is_tied else shape.vocab * shape.hidden
    return (max(0.0, layer) + embeddings) / parameters(shape)


def _layer_activations(
    shape: ModelShape, tokens: int, each: _Bytes, options: EstimateOptions
) -> float:
    """Returns what one layer keeps for its backward pass."""
    copies = 5 if options.precision is TrainingPrecision.MIXED else 2
    # Autocast makes a 16-bit copy of its input for each of the five linear layers.
    norms = 2 * _norm_saved(shape, each) + copies * shape.hidden * each.compute
    attention = 4 * shape.query_width * each.compute + FULL * shape.heads
    return tokens * (norms + attention + 4 * _inner(shape) * each.compute)


def _norm_saved(shape: ModelShape, each: _Bytes) -> int:
    """Returns what a norm keeps: its input in float32, and the normalised input in the type of
    the stream."""
    return shape.hidden * (FULL + each.residual) + FULL


def _norm(shape: ModelShape, each: _Bytes) -> int:
    """Returns what the last norm and the head keep."""
    return _norm_saved(shape, each) + shape.hidden * each.compute


def _inner(shape: ModelShape) -> float:
    """Returns the width of the feed-forward part that a token uses, on average over the layers."""
    experts = shape.experts
    if experts is None:
        return shape.intermediate
    active = experts.active * experts.intermediate + experts.shared_intermediate
    return (active * experts.layers + shape.intermediate * shape.dense_layers) / shape.layers
