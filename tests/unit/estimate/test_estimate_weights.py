"""Weights against what was measured under vLLM, and against the published sizes of models."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.errors import Invalid
from andon.estimate.rules.config_json import config_facts
from andon.estimate.rules.engines import refusal, splits_of, world_size
from andon.estimate.rules.options import EstimateOptions, ServingEngine
from andon.estimate.rules.serving import kv_bytes, model_weights_bytes, serving_need
from andon.estimate.rules.shape import EstimateConfidence, ModelFacts, ModelShape, WeightFormat
from andon.estimate.rules.weights import WeightSplits, weights_bytes
from andon.units import GIB
from tests.support.model_configs import CONFIGS
from tests.support.rows import rows

MEASURED = {
    ("Llama-3.1-8B", 1): 14.99,
    ("Llama-3.3-70B-FP8", 1): 67.72,
    ("Llama-3.3-70B-FP8", 2): 33.88,
    ("Qwen3-32B", 1): 61.03,
    ("Qwen3-32B", 2): 30.59,
    ("Qwen3-0.6B", 1): 1.12,
    ("Mistral-Small-24B", 1): 44.76,
}
"""GiB per GPU, by tensor-parallel size."""

PUBLISHED = {
    "Llama-3.1-8B": 8.03, "Llama-3.3-70B-FP8": 70.55, "Qwen3-32B": 32.76, "Qwen3-0.6B": 0.596,
    "Mistral-Small-24B": 24.01, "DeepSeek-V3": 671.0, "Mixtral-8x7B": 46.70,
    "Qwen3-30B-A3B": 30.53, "gpt-oss-20b": 20.91, "Llama-4-Scout": 108.6, "gemma-3-27b": 27.4,
    "falcon-7b": 6.92, "gpt2": 0.124, "Qwen2.5-7B-AWQ": 7.62, "gemma-2-9b": 9.24,
    "GLM-4.5-Air": 106.9, "opt-6.7b": 6.66,
}  # fmt: skip
"""Billions of parameters."""


def facts_of(name: str) -> ModelFacts:
    return config_facts(CONFIGS[name], name)


def options(**given: Any) -> EstimateOptions:
    return EstimateOptions(**given)


def test_weights_are_within_one_percent_of_what_was_measured() -> None:
    found = {
        key: model_weights_bytes(facts_of(key[0]), options(tp=key[1])) / GIB for key in MEASURED
    }
    wrong = {key: found[key] for key, real in MEASURED.items() if abs(found[key] / real - 1) > 0.01}
    assert wrong == {}


def test_parameters_are_within_one_percent_of_what_is_published() -> None:
    found = {name: (facts_of(name).parameters or 0) / 1e9 for name in PUBLISHED}
    wrong = {
        name: found[name] for name, real in PUBLISHED.items() if abs(found[name] / real - 1) > 0.01
    }
    assert wrong == {}


def test_packed_weights_are_as_large_as_their_files() -> None:
    sizes = {"gpt-oss-20b": 12.8, "Qwen2.5-7B-AWQ": 5.2, "DeepSeek-V3": 626.0}
    found = {name: model_weights_bytes(facts_of(name), options()) / GIB for name in sizes}
    assert {n: found[n] for n, real in sizes.items() if abs(found[n] / real - 1) > 0.02} == {}


KV = {
    ("Llama-3.1-8B", 1): 128 * 1024,
    ("Llama-3.1-8B", 8): 16 * 1024,
    ("Llama-3.1-8B", 16): 16 * 1024,
    ("Qwen3-32B", 2): 128 * 1024,
    ("DeepSeek-V3", 1): 61 * 576 * 2,
    ("DeepSeek-V3", 8): 61 * 576 * 2,
    ("falcon-7b", 1): 32 * 2 * 64 * 2,
}
"""Bytes of one token on one GPU: grouped queries, latent attention, one head for all."""


def test_the_cache_of_a_token_is_right() -> None:
    def one(name: str, tp: int) -> int:
        shape = facts_of(name).shape
        assert shape is not None
        return kv_bytes(shape, 1, 16, attention=tp)

    assert {key: one(*key) for key in KV} == KV


def test_layers_with_a_window_keep_only_the_window() -> None:
    shape = facts_of("gemma-3-27b").shape
    assert shape is not None
    assert (shape.window, shape.windowed_layers) == (1024, 52)
    short, long = kv_bytes(shape, 1024, 16), kv_bytes(shape, 1024 * 64, 16)
    assert long == short * (10 * 64 + 52) / 62


LLAMA = CONFIGS["Llama-3.1-8B"]
BY_LAYER: list[tuple[str, dict[str, Any], float]] = [
    ("key/value heads", {"num_key_value_heads": [8] * 16 + [4] * 16}, 0.75),
    ("another name", {"num_key_value_heads_per_layer": [8] * 24 + [0] * 8}, 0.75),
    ("heads", {"num_attention_heads": [32] * 32}, 1.0),
    ("widths", {"intermediate_size": [14336] * 32}, 1.0),
    (
        "layers without a cache",
        {"layer_types": ["linear_attention"] * 24 + ["full_attention"] * 8}, 0.25,
    ),
    ("windows", {"sliding_window": [4096] * 16 + [0] * 16}, 0.75),
    (
        "kinds of layers",
        {"sliding_window": 4096, "layer_types": ["sliding_attention", "full_attention"] * 16}, 0.75,
    ),
    (
        "chunks",
        {"attention_chunk_size": 4096, "layer_types": ["chunked_attention"] * 32}, 0.5,
    ),
    ("a pattern", {"sliding_window": 4096, "sliding_window_pattern": "LLLG"}, 0.625),
    ("the last ones", {"sliding_window": 4096, "max_window_layers": 16}, 0.75),
]  # fmt: skip


@rows("words, more, share", BY_LAYER)
def test_numbers_for_each_layer_are_understood(
    words: str, more: dict[str, Any], share: float
) -> None:
    """A21: a list in config.json was refused."""
    whole, found = (config_facts(one, words).shape for one in (LLAMA, {**LLAMA, **more}))
    assert whole is not None
    assert found is not None
    assert kv_bytes(found, 8192, 16) == share * kv_bytes(whole, 8192, 16)


def test_experts_in_some_layers_are_counted_where_they_are() -> None:
    dense = CONFIGS["Qwen3-30B-A3B"]
    kinds: list[dict[str, Any]] = [
        {"moe_layer_freq": [0] * 8 + [1] * 40},
        {"mlp_layer_types": ["dense"] * 8 + ["sparse"] * 40},
    ]
    each = {"num_experts": [128] * 48, "num_experts_per_tok": [8] * 48}
    for more in (*kinds, each):
        shape = config_facts({**dense, **more}, "m").shape
        assert shape is not None
        assert shape.experts is not None
        assert (shape.experts.count, shape.experts.active) == (128, 8)
        assert shape.experts.layers == (48 if "num_experts" in more else 40)


@rows(
    "more",
    [
        {"num_key_value_heads": [8]},
        {"num_attention_heads": ["x"] * 32},
        {"sliding_window": [-1] * 32},
        {"num_key_value_heads": [64] * 32},
    ],
)
def test_lists_that_do_not_fit_the_layers_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match=r"config\.json"):
        config_facts({**LLAMA, **more}, "x")


def test_a_family_that_is_not_known_is_said_and_taken_as_a_plain_decoder() -> None:
    config = {**CONFIGS["Llama-3.1-8B"], "model_type": "zebra9"}
    found = config_facts(config, "z")
    assert found.parameters == facts_of("Llama-3.1-8B").parameters
    assert "'zebra9' is not known" in found.notes[0]
    assert found.confidence is EstimateConfidence.LOW


NONSENSE: dict[str, object] = {
    "a list": [],
    "empty": {},
    "negative": {**CONFIGS["Llama-3.1-8B"], "hidden_size": -1},
    "a word": {**CONFIGS["Llama-3.1-8B"], "num_hidden_layers": "many"},
    "huge": {**CONFIGS["Llama-3.1-8B"], "vocab_size": 10**30},
    "nan": {**CONFIGS["Llama-3.1-8B"], "intermediate_size": float("nan")},
    "more kv": {**CONFIGS["Llama-3.1-8B"], "num_key_value_heads": 64},
    "table": {**CONFIGS["Llama-3.1-8B"], "num_attention_heads": {}},
}


def test_a_config_that_makes_no_sense_is_refused_with_one_sentence() -> None:
    for name, config in NONSENSE.items():
        with pytest.raises(Invalid) as found:
            config_facts(config, "x")
        assert "config.json" in found.value.reason, name


WORLDS = [
    ("vllm", {"tp": 2, "pp": 3, "dp": 2, "cp": 2}, 24),
    ("vllm", {"tp": 8, "dcp": 4}, 8),
    ("sglang", {"tp": 2, "pp": 2, "dp": 3}, 12),
    ("sglang", {"tp": 8, "dp": 8, "dp_attention": True}, 8),
    ("trtllm", {"tp": 4, "pp": 2, "cp": 2, "dp": 5}, 16),
    ("transformers", {"pp": 3}, 3),
    ("training", {"tp": 2, "dp": 4}, 8),
]


def test_the_world_size_is_the_engines_own() -> None:
    found = [world_size(options(engine=ServingEngine(e), **sizes)) for e, sizes, _ in WORLDS]
    assert found == [world for _, _, world in WORLDS]


REFUSED = [
    ("Llama-3.1-8B", "vllm", {"tp": 3}, "32 attention heads", (2, 4)),
    ("Llama-3.1-8B", "sglang", {"tp": 5}, "32 attention heads", (4, 8)),
    ("Qwen3-30B-A3B-FP8", "vllm", {"tp": 8}, "blocks of 128", (2, )),
    ("Llama-3.1-8B", "vllm", {"pp": 64}, "64 pipeline stages for 32 layers", (32,)),
    ("Llama-3.1-8B", "vllm", {"tp": 4, "dcp": 3}, "decode-context", (2, 4)),
    ("Llama-3.1-8B", "sglang", {"tp": 4, "dp": 3, "dp_attention": True}, "divisible by dp", (2, 4)),
    ("Llama-3.1-8B", "vllm", {"context": 200_000}, "made for 131072", (131072,)),
]  # fmt: skip


def test_sizes_that_an_engine_refuses_have_its_reason_and_the_nearest_that_work() -> None:
    wrong = []
    for name, engine, sizes, words, nearest in REFUSED:
        facts = facts_of(name)
        found = refusal(facts.shape, facts.stored, options(engine=ServingEngine(engine), **sizes))
        if found is None or words not in found.reason or found.nearest != nearest:
            wrong.append((name, sizes, found))
    assert wrong == []


def test_what_is_not_refused_starts() -> None:
    for name in ("Llama-3.1-8B", "Qwen3-32B", "DeepSeek-V3", "gpt-oss-20b"):
        for tp in (1, 2, 4, 8):
            facts = facts_of(name)
            assert refusal(facts.shape, facts.stored, options(tp=tp)) is None, (name, tp)


SHAPES = st.builds(
    lambda kv, groups, dim, layers, hidden, inner, vocab, tied: ModelShape(
        "llama", layers, hidden, kv * groups, kv, dim, inner, vocab, tied
    ),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([64, 128]),
    st.integers(1, 120),
    st.integers(64, 16384),
    st.integers(64, 65536),
    st.integers(1000, 260_000),
    st.booleans(),
)


@given(SHAPES, st.integers(1, 6), st.integers(1, 1 << 20))
def test_more_tensor_parallelism_never_needs_more_per_gpu(
    shape: ModelShape, power: int, tokens: int
) -> None:
    less, more = 2 ** (power - 1), 2**power
    one, two = (WeightSplits(n, 1, n, n) for n in (less, more))
    assert weights_bytes(shape, WeightFormat(), two) <= weights_bytes(shape, WeightFormat(), one)
    assert kv_bytes(shape, tokens, 16, attention=more) <= kv_bytes(
        shape, tokens, 16, attention=less
    )


@given(SHAPES, st.integers(1, 1 << 20), st.integers(0, 1 << 20), st.integers(1, 4096))
def test_a_longer_context_never_needs_less_cache(
    shape: ModelShape, tokens: int, more: int, window: int
) -> None:
    assert kv_bytes(shape, tokens, 16) <= kv_bytes(shape, tokens + more, 16)
    from msgspec.structs import replace

    windowed = replace(shape, window=window, windowed_layers=shape.layers // 2)
    assert kv_bytes(windowed, tokens, 16) <= kv_bytes(windowed, tokens + more, 16)


def test_attention_with_data_parallelism_copies_only_the_attention() -> None:
    facts = facts_of("DeepSeek-V3")
    whole = options(engine=ServingEngine.SGLANG, tp=8)
    split = options(engine=ServingEngine.SGLANG, tp=8, dp=8, dp_attention=True)
    assert splits_of(split) == WeightSplits(8, 1, 8, 1)
    assert model_weights_bytes(facts, split) > model_weights_bytes(facts, whole)


def test_small_models_may_need_more_on_two_gpus() -> None:
    facts = facts_of("Qwen3-0.6B")
    one, two = (serving_need(facts, options(tp=n, context=4096)) for n in (1, 2))
    assert two.weights_bytes < one.weights_bytes
    assert two.overhead_bytes > one.overhead_bytes


def test_engines_hold_float32_in_16_bits_and_pack_where_they_are_told_to() -> None:
    plain = config_facts({**CONFIGS["Llama-3.1-8B"], "torch_dtype": "float32"}, "x")
    half = model_weights_bytes(plain, options())
    assert abs(half / GIB - 14.96) < 0.1
    assert model_weights_bytes(plain, options(dtype="float32")) == pytest.approx(2 * half, rel=0.01)
    packed = model_weights_bytes(plain, options(quantization="fp8"))
    assert 0.5 * half < packed < 0.6 * half
    with pytest.raises(Invalid, match="quantization 'zip' is not known"):
        model_weights_bytes(plain, options(quantization="zip"))
