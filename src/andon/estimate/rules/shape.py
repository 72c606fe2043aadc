"""What decides a model's memory: its layers, heads and experts, and how its weights are stored."""

from enum import StrEnum

from msgspec import Struct, field

BITS_PER_BYTE = 8


class FactSource(StrEnum):
    """Where the facts about a model come from, the surest first."""

    RUNS = "earlier runs"
    SAFETENSORS = "safetensors headers"
    GGUF = "GGUF header"
    INDEX = "safetensors index"
    CONFIG = "config.json"
    NAME = "name alone"
    FORMULA = "formula"


class EstimateConfidence(StrEnum):
    """How sure a number is."""

    HIGH = "high"  # read or measured
    MEDIUM = "medium"  # computed from the model's own facts
    LOW = "low"  # assumed from similar models


class LatentAttention(Struct, frozen=True):
    """Multi-head latent attention: one compressed vector per token instead of keys and values."""

    kv_rank: int
    rope_dim: int
    nope_dim: int
    value_dim: int
    query_rank: int | None = None


class ExpertLayers(Struct, frozen=True):
    """The layers whose feed-forward part is a choice among experts."""

    count: int
    intermediate: int
    active: int  # experts per token
    layers: int
    shared_intermediate: int = 0  # of the experts that every token uses, together


class WeightFormat(Struct, frozen=True):
    """How weights are stored: embeddings and norms in the plain type, linear layers packed."""

    plain_bits: int = 16
    linear_bits: float = 16.0
    label: str = "bfloat16"
    experts_only: bool = False  # only the experts are packed
    group: int = 0  # weights that share a scale along the input; 0: any width can be split
    is_block: bool = False  # the scale covers a block of rows and columns
    packs_all: bool = False  # embeddings and norms, too
    plain_attention: bool = False  # attention is left in the plain type

    @property
    def is_packed(self) -> bool:
        return self.linear_bits < self.plain_bits


class ModelShape(Struct, frozen=True):
    """The dimensions of a decoder, in elements."""

    family: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    is_tied: bool = False
    is_gated: bool = True  # three matrices in the feed-forward part instead of two
    has_qk_norm: bool = False
    has_qkv_bias: bool = False
    latent: LatentAttention | None = None
    experts: ExpertLayers | None = None
    window: int | None = None
    windowed_layers: int = 0
    positions: int = 0  # learned position embeddings
    other_parameters: int = 0  # a vision or audio tower; not split
    context: int | None = None  # the longest it was made for
    kv_heads_by_layer: tuple[int, ...] = ()  # if they differ; 0 of a layer that keeps nothing

    @property
    def dense_layers(self) -> int:
        return self.layers - (self.experts.layers if self.experts else 0)

    @property
    def kv_heads_in_all(self) -> int:
        """Returns the key and value heads of all layers together."""
        return sum(self.kv_heads_by_layer) or self.kv_heads * self.layers

    @property
    def query_width(self) -> int:
        if self.latent is not None:
            return self.heads * (self.latent.nope_dim + self.latent.rope_dim)
        return self.heads * self.head_dim


class ModelFacts(Struct, frozen=True):
    """What is known of a model, and from where."""

    name: str
    source: FactSource
    confidence: EstimateConfidence
    shape: ModelShape | None = None
    stored: WeightFormat = field(default_factory=WeightFormat)
    weights_bytes: int | None = None  # as stored in its files
    parameters: int | None = None
    notes: tuple[str, ...] = ()
    where: str = ""  # the file or folder


def whole(value: float) -> int:
    """Rounds up to whole bytes."""
    return int(-(-value // 1))


def share(count: int, parts: int) -> int:
    """Returns the largest part of an uneven division."""
    return -(-count // parts)
