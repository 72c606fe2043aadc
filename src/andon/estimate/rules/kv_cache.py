"""The cache of keys and values that a server keeps for the tokens of its requests."""

from andon.estimate.rules.shape import BITS_PER_BYTE, ModelShape, share, whole


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
    """The cache of one request of this length on the fullest GPU.

    A layer with a sliding window keeps only the window. Context parallelism divides the tokens.
    """
    windowed = min(shape.windowed_layers, shape.layers)
    held = tokens if shape.window is None else min(tokens, shape.window)
    both = (shape.layers - windowed) * share(tokens, context_parallel)
    both += windowed * share(held, context_parallel)
    layers = share(shape.layers, pipeline) / shape.layers
    return whole(both * layers * kv_bytes_per_token(shape, kv_bits, attention))
