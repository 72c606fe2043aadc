"""Reads a model's shape from its config.json, for known and unknown families."""

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from andon.errors import Invalid
from andon.estimate.rules.families import FAMILIES, LLAMA, MULTIMODAL, FamilyTraits
from andon.estimate.rules.quantisation import config_format
from andon.estimate.rules.shape import (
    EstimateConfidence,
    ExpertLayers,
    FactSource,
    LatentAttention,
    ModelFacts,
    ModelShape,
)
from andon.estimate.rules.weights import parameters
from andon.model.codec import shown

Config = Mapping[str, Any]
MOST = 1 << 24  # of any dimension: larger ones are nonsense
MOST_LAYERS = 4096
_NESTED = ("text_config", "llm_config", "language_config", "thinker_config", "decoder")
_HIDDEN = ("hidden_size", "n_embd", "d_model", "dim")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "multi_query_group_num")
_INTERMEDIATE = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "hidden_dim")
_VOCAB = ("vocab_size", "padded_vocab_size")
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx")
_EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
_ACTIVE = ("num_experts_per_tok", "moe_topk", "moe_k", "top_k")
_BY_LAYER = frozenset((*_HEADS, *_KV_HEADS, *_INTERMEDIATE, "sliding_window"))
_LARGEST = frozenset(
    (*_EXPERTS, *_ACTIVE, "moe_intermediate_size", "n_shared_experts", "num_shared_experts")
)
"""Of numbers for each layer, the largest counts."""
_WITHOUT_CACHE = frozenset({"linear_attention", "mamba", "mamba2", "recurrent", "conv"})
_ODD = re.compile(r"[^\w.+-]")


def config_facts(config: object, name: str, where: str = "") -> ModelFacts:
    """Returns the facts in a config.json; raises Invalid, with the field, if it makes no sense."""
    if not isinstance(config, Mapping):
        raise Invalid("config.json is not a table of fields", hint="it begins with { and ends in }")
    text, outer = _text_part(config)
    notes: list[str] = []
    family, traits = _family(text, outer, notes)
    stored, unknown = config_format({**text, **_own(config)})
    if unknown:
        notes.append(unknown)
    shape = _shape(text, family, traits or LLAMA)
    if text is not config:
        tower, more = _tower(config, outer, shape.hidden)
        shape = replace(shape, other_parameters=tower) if tower else shape
        notes += more
    sure = EstimateConfidence.LOW if traits is None or unknown else EstimateConfidence.MEDIUM
    return ModelFacts(
        name=name,
        source=FactSource.CONFIG,
        confidence=sure,
        shape=shape,
        stored=stored,
        parameters=parameters(shape),
        notes=tuple(notes),
        where=where,
    )


def _own(config: Config) -> dict[str, Any]:
    """Returns the fields outside the text part that apply to it."""
    names = ("torch_dtype", "dtype", "quantization_config", "compression_config")
    return {name: config[name] for name in names if config.get(name) is not None}


def _text_part(config: Config) -> tuple[Config, str]:
    """Returns the part about text, and the type of the whole."""
    outer = _word(config.get("model_type"))
    for name in _NESTED:
        inner = config.get(name)
        if isinstance(inner, Mapping) and (
            _first(inner, _HIDDEN) is not None or "text_config" in inner
        ):
            deeper = inner.get("text_config")
            return (deeper if isinstance(deeper, Mapping) else inner), outer
    return config, outer


def _family(text: Config, outer: str, notes: list[str]) -> tuple[str, FamilyTraits | None]:
    word = _word(text.get("model_type"))
    fallback = MULTIMODAL.get(outer)
    if not word or (word not in FAMILIES and fallback is not None):
        word = fallback[0] if fallback is not None else word
    traits = FAMILIES.get(word)
    if traits is None:
        called = f"family {word!r} is not known" if word else "the family is not named"
        notes.append(f"{called}; taken as a plain decoder with three feed-forward matrices")
    return word or "unknown", traits


def _shape(text: Config, family: str, traits: FamilyTraits) -> ModelShape:
    hidden, layers = _size(text, _HIDDEN), _size(text, _LAYERS, MOST_LAYERS)
    heads = max(_listed(text, _HEADS, layers)) or _size(text, _HEADS)
    kv_heads, by_layer = _kv_heads(text, heads, layers)
    head_dim = _some(text, ("head_dim", "kv_channels", "attention_head_dim")) or max(
        1, hidden // heads
    )
    context = _some(text, _CONTEXT)
    window, windowed = _window(text, layers, traits)
    tied = text.get("tie_word_embeddings")
    bias = text.get("attention_bias")
    return ModelShape(
        family=family,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        kv_heads_by_layer=by_layer,
        head_dim=head_dim,
        intermediate=_intermediate(text, hidden, layers),
        vocab=_size(text, _VOCAB),
        is_tied=tied if isinstance(tied, bool) else traits.is_tied,
        is_gated=traits.is_gated,
        has_qk_norm=traits.has_qk_norm,
        has_qkv_bias=bias if isinstance(bias, bool) else traits.has_qkv_bias,
        latent=_latent(text),
        experts=_experts(text, layers, hidden),
        window=window,
        windowed_layers=windowed,
        positions=_positions(context, traits),
        context=context,
    )


def _positions(context: int | None, traits: FamilyTraits) -> int:
    if not traits.learned_positions or context is None:
        return 0
    return context + (2 if traits.learned_positions == 2 else 0)


def _intermediate(text: Config, hidden: int, layers: int) -> int:
    for name in ("intermediate_size_mlp", *_INTERMEDIATE):
        each = _listed(text, (name,), layers)
        found = -(-sum(each) // len(each)) or _some(text, (name,))
        if found is not None:
            return found
    ratio = text.get("expansion_ratio")
    return hidden * (ratio if type(ratio) is int and 0 < ratio <= 64 else 4)


def _kv_heads(text: Config, heads: int, layers: int) -> tuple[int, tuple[int, ...]]:
    """Returns the most key and value heads of any layer, and those of each layer if they differ."""
    if text.get("multi_query") is True and not text.get("new_decoder_architecture"):
        return _some(text, ("multi_query_group_num",)) or 1, ()
    each = _listed(text, ("num_key_value_heads_per_layer", *_KV_HEADS), layers)
    found = max(each) or _some(text, _KV_HEADS) or heads
    if found > heads:
        raise Invalid(f"config.json: {found} key/value heads, more than {heads} heads")
    if not any(each):
        each = (found,) * layers
    kinds = text.get("layer_types")
    if isinstance(kinds, list) and len(kinds) == layers:
        layer_kinds = zip(each, kinds, strict=True)
        each = tuple(0 if str(kind) in _WITHOUT_CACHE else count for count, kind in layer_kinds)
    return found, each if set(each) != {found} and any(each) else ()


def _listed(text: Config, names: tuple[str, ...], layers: int) -> tuple[int, ...]:
    """Returns one number for each layer; a single 0 if the file has none, or one for all."""
    for name in names:
        value = text.get(name)
        if not isinstance(value, list):
            continue
        if len(value) != layers:
            raise Invalid(f"config.json: {name} lists {len(value)} numbers for {layers} layers")
        return tuple(_some({name: one}, (name,)) or 0 for one in value)
    return (0,)


def _latent(text: Config) -> LatentAttention | None:
    rank = _some(text, ("kv_lora_rank",))
    if rank is None:
        return None
    return LatentAttention(
        kv_rank=rank,
        rope_dim=_some(text, ("qk_rope_head_dim",)) or 64,
        nope_dim=_some(text, ("qk_nope_head_dim",)) or 128,
        value_dim=_some(text, ("v_head_dim",)) or 128,
        query_rank=_some(text, ("q_lora_rank",)),
    )


def _experts(text: Config, layers: int, hidden: int) -> ExpertLayers | None:
    count = _some(text, _EXPERTS)
    if count is None or count < 2:
        return None
    intermediate = _some(text, ("moe_intermediate_size", "expert_ffn_hidden_size"))
    width = intermediate or _some(text, _INTERMEDIATE) or 4 * hidden
    shared = _some(text, ("shared_expert_intermediate_size",))
    if shared is None:
        shared = width * (_some(text, ("n_shared_experts", "num_shared_experts")) or 0)
    if text.get("model_type") == "llama4_text":
        shared = width
    return ExpertLayers(
        count=count,
        intermediate=width,
        active=_some(text, _ACTIVE) or 1,
        layers=_expert_layers(text, layers),
        shared_intermediate=shared,
    )


def _expert_layers(text: Config, layers: int) -> int:
    """Returns how many layers have experts: the first ones, or every other one, may be dense."""
    for name, marks in (("mlp_layer_types", ("sparse", "moe")), ("moe_layer_freq", (1,))):
        each = text.get(name)
        if isinstance(each, list) and len(each) == layers:
            return sum(one in marks for one in each)
    first = _some(text, ("first_k_dense_replace",)) or 0
    step = _some(text, ("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_freq")) or 1
    dense = text.get("mlp_only_layers")
    named = len(dense) if isinstance(dense, list) and step == 1 else 0
    return max(0, min(layers, (layers - min(first, layers)) // step - named))


def _window(text: Config, layers: int, traits: FamilyTraits) -> tuple[int | None, int]:
    """Returns the sliding window, and how many layers have it."""
    each = _listed(text, ("sliding_window",), layers)
    if any(each):
        return max(each), sum(bool(one) for one in each)
    window = _some(text, ("sliding_window", "attention_chunk_size"))
    if window is None or text.get("use_sliding_window") is False:
        return None, 0
    kinds = text.get("layer_types")
    if isinstance(kinds, list) and len(kinds) == layers:
        return window, sum(kind in ("sliding_attention", "chunked_attention") for kind in kinds)
    pattern = text.get("sliding_window_pattern")
    if isinstance(pattern, str) and 0 < len(pattern) <= MOST_LAYERS:  # LLLG: one of four is global
        windowed = sum(pattern[place % len(pattern)] in "Ll" for place in range(layers))
        return window, windowed
    every = _some(text, ("sliding_window_pattern",)) or traits.window_every
    if every:
        return window, layers - layers // every
    first = _some(text, ("max_window_layers",))  # of Qwen: the layers before it see everything
    return window, layers if first is None else max(0, layers - first)


def _tower(config: Config, outer: str, hidden: int) -> tuple[int, list[str]]:
    """Returns the approximate number of parameters of the vision part, and notes about it."""
    vision = config.get("vision_config")
    if not isinstance(vision, Mapping):
        return 0, []
    width = _some(vision, ("embed_dim",)) or _some(vision, ("hidden_size", "width"))
    layers = _some(vision, ("num_hidden_layers", "depth", "layers"))
    if width is None or layers is None:
        return 0, ["the part for pictures has an unknown size; it is left out"]
    inner = _some(vision, ("intermediate_size",))
    ratio = vision.get("mlp_ratio")
    if inner is None:
        inner = int(width * ratio) if isinstance(ratio, (int, float)) and 0 < ratio < 64 else None
    matrices = 3 if MULTIMODAL.get(outer, ("", False))[1] else 2
    layer = 4 * width * width + matrices * width * (inner or 4 * width)
    merge = _some(config, ("spatial_merge_size",)) or _some(vision, ("spatial_merge_size",)) or 1
    projector = width * hidden + hidden * hidden
    if merge > 1:
        projector += merge * merge * width * width
    return layers * layer + projector, []


def _word(value: object) -> str:
    return _ODD.sub("", value)[:40].lower() if isinstance(value, str) else ""


def _first(config: Config, names: tuple[str, ...]) -> object:
    return next((config[name] for name in names if config.get(name) is not None), None)


def _some(config: Config, names: tuple[str, ...], most: int = MOST) -> int | None:
    for name in names:
        value = config.get(name)
        if value is None:
            continue
        if isinstance(value, list) and name in _BY_LAYER:
            continue  # one for each layer: `_listed` has them
        if isinstance(value, list) and name in _LARGEST and 0 < len(value) <= MOST_LAYERS:
            return max(_some({name: one}, (name,), most) or 0 for one in value) or None
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is not int or not 0 <= value <= most:
            raise Invalid(f"config.json: {name} is {shown(value)}, not a number from 0 to {most}")
        return value or None
    return None


def _size(config: Config, names: tuple[str, ...], most: int = MOST) -> int:
    found = _some(config, names, most)
    if found is None:
        hint = "a config.json of a language model; a safetensors file or its folder works without"
        raise Invalid(f"config.json has no {names[0]}", hint=hint)
    return found
