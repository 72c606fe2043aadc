"""Weights by name alone against the published sizes of models, in each of their packed forms."""

from typing import Any

from msgspec.structs import replace

from andon.estimate.rules.names import name_facts
from andon.estimate.rules.options import EstimateOptions
from andon.estimate.rules.quantisation import config_format
from andon.estimate.rules.serving import model_weights_bytes, stored_as

PLAIN = {
    "meta-llama/Llama-3.1-8B": 16.06, "meta-llama/Llama-3.3-70B-Instruct": 141.1,
    "meta-llama/Llama-3.1-405B": 811.7, "meta-llama/Llama-3.2-1B": 2.47,
    "meta-llama/Llama-3.2-3B-Instruct": 6.43, "meta-llama/Llama-2-7b-hf": 13.48,
    "meta-llama/Llama-2-13b-chat-hf": 26.03, "meta-llama/Llama-2-70b": 137.95,
    "mistralai/Mistral-7B-Instruct-v0.3": 14.5, "mistralai/Mistral-Nemo-Instruct-2407": 24.5,
    "mistralai/Mistral-Small-24B-Instruct-2501": 47.1, "mistralai/Mistral-Large-2411": 245.2,
    "mistralai/Mixtral-8x7B-Instruct-v0.1": 93.4, "mistralai/Mixtral-8x22B-v0.1": 281.2,
    "Qwen/Qwen2.5-0.5B": 0.988, "Qwen/Qwen2.5-1.5B-Instruct": 3.09, "Qwen/Qwen2.5-3B": 6.17,
    "Qwen/Qwen2.5-7B-Instruct": 15.23, "Qwen/Qwen2.5-14B": 29.54, "Qwen/Qwen2.5-32B": 65.5,
    "Qwen/Qwen2.5-72B-Instruct": 145.4, "Qwen/Qwen3-0.6B": 1.19, "Qwen/Qwen3-1.7B": 3.44,
    "Qwen/Qwen3-4B": 8.04, "Qwen/Qwen3-8B": 16.38, "Qwen/Qwen3-14B": 29.54, "Qwen/Qwen3-32B": 65.5,
    "Qwen/Qwen3-30B-A3B": 61.06, "Qwen/Qwen3-235B-A22B": 470.2,
    "google/gemma-2-2b-it": 5.23, "google/gemma-2-9b-it": 18.48, "google/gemma-2-27b": 54.45,
    "google/gemma-3-1b-it": 2.0, "google/gemma-3-4b-it": 8.6, "google/gemma-3-12b-it": 24.4,
    "google/gemma-3-27b-it": 54.86, "microsoft/phi-4": 29.32, "microsoft/Phi-4-mini-instruct": 7.67,
    "microsoft/Phi-3.5-mini-instruct": 7.64, "microsoft/Phi-3-medium-128k-instruct": 27.9,
    "microsoft/Phi-3.5-MoE-instruct": 83.75, "meta-llama/Llama-4-Scout-17B-16E": 217.3,
    "deepseek-ai/DeepSeek-V2-Lite": 31.4, "zai-org/GLM-4.5-Air": 213.0, "gpt2": 0.25,
}  # fmt: skip
"""Gigabytes of the files as published, of models that are not packed."""

PACKED = {
    "openai/gpt-oss-20b": 13.76, "openai/gpt-oss-120b": 65.28,
    "deepseek-ai/DeepSeek-V3": 672.0, "deepseek-ai/DeepSeek-R1": 672.0,
    "moonshotai/Kimi-K2-Instruct": 1029.0,
    "neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8": 9.08, "nvidia/Llama-3.1-70B-Instruct-FP8": 72.7,
    "Qwen/Qwen3-8B-FP8": 9.43, "Qwen/Qwen3-32B-FP8": 34.3, "Qwen/Qwen3-30B-A3B-FP8": 31.2,
    "Qwen/Qwen3-235B-A22B-FP8": 236.4,
    "hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4": 5.73,
    "hugging-quants/Meta-Llama-3.1-8B-Instruct-GPTQ-INT4": 5.73,
    "hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4": 39.77,
    "Qwen/Qwen2.5-7B-Instruct-AWQ": 5.57, "Qwen/Qwen2.5-14B-Instruct-AWQ": 9.98,
    "Qwen/Qwen2.5-32B-Instruct-AWQ": 19.33, "Qwen/Qwen2.5-72B-Instruct-AWQ": 41.6,
    "Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4": 41.6, "Qwen/Qwen3-8B-AWQ": 6.1,
    "Qwen/Qwen3-32B-AWQ": 19.4, "TheBloke/Mixtral-8x7B-Instruct-v0.1-AWQ": 24.65,
    "unsloth/Meta-Llama-3.1-8B-bnb-4bit": 5.7, "unsloth/Llama-3.3-70B-Instruct-bnb-4bit": 39.5,
    "nvidia/Llama-3.1-8B-Instruct-NVFP4": 6.03, "nvidia/Llama-3.3-70B-Instruct-NVFP4": 42.7,
}  # fmt: skip

GGUF = {
    ("Meta-Llama-3.1-8B-Instruct", "Q8_0"): 8.54, ("Meta-Llama-3.1-8B-Instruct", "Q6_K"): 6.6,
    ("Meta-Llama-3.1-8B-Instruct", "Q5_K_M"): 5.73, ("Meta-Llama-3.1-8B-Instruct", "Q5_K_S"): 5.6,
    ("Meta-Llama-3.1-8B-Instruct", "Q4_K_M"): 4.92, ("Meta-Llama-3.1-8B-Instruct", "Q4_K_S"): 4.69,
    ("Meta-Llama-3.1-8B-Instruct", "Q4_0"): 4.66, ("Meta-Llama-3.1-8B-Instruct", "Q3_K_L"): 4.32,
    ("Meta-Llama-3.1-8B-Instruct", "Q3_K_M"): 4.02, ("Meta-Llama-3.1-8B-Instruct", "Q3_K_S"): 3.66,
    ("Meta-Llama-3.1-8B-Instruct", "Q2_K"): 3.18, ("Meta-Llama-3.1-8B-Instruct", "IQ4_XS"): 4.45,
    ("Meta-Llama-3.1-8B-Instruct", "IQ3_M"): 3.78, ("Meta-Llama-3.1-8B-Instruct", "IQ2_M"): 2.95,
    ("Llama-3.3-70B-Instruct", "Q8_0"): 74.98, ("Llama-3.3-70B-Instruct", "Q6_K"): 57.89,
    ("Llama-3.3-70B-Instruct", "Q5_K_M"): 49.95, ("Llama-3.3-70B-Instruct", "Q4_K_M"): 42.52,
    ("Llama-3.3-70B-Instruct", "Q3_K_M"): 34.27, ("Llama-3.3-70B-Instruct", "IQ4_XS"): 37.9,
    ("Qwen2.5-7B-Instruct", "Q4_K_M"): 4.68, ("Qwen2.5-7B-Instruct", "Q8_0"): 8.1,
    ("gemma-2-9b-it", "Q4_K_M"): 5.76, ("gemma-2-9b-it", "Q8_0"): 9.83,
    ("phi-4", "Q4_K_M"): 9.05, ("Mixtral-8x7B-Instruct-v0.1", "Q4_K_M"): 26.44,
    ("DeepSeek-R1", "Q4_K_M"): 404.0,
}  # fmt: skip
"""llama.cpp mixes types by layer, so the same name means somewhat different bits in each model."""


OSS = {
    "quant_method": "mxfp4",
    "modules_to_not_convert": [
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head",
    ],
}  # fmt: skip
INT4 = {
    "quant_method": "compressed-tensors",
    "config_groups": {
        "group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 32, "symmetric": True}}
    },
    "ignore": [
        "lm_head",
        "re:.*self_attn.*",
        "re:.*shared_experts.*",
        r"re:.*mlp\.(gate|up)_proj.*",
    ],
}
FP4 = {
    "quant_method": "compressed-tensors",
    "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "float", "group_size": 16}}},
    "ignore": ["lm_head"],
}
ROUTERS = {
    "quant_method": "fp8",
    "weight_block_size": [128, 128],
    "modules_to_not_convert": ["lm_head", *(f"model.layers.{n}.mlp.gate" for n in range(48))],
}
DESCRIBED: list[tuple[str, dict[str, Any], float]] = [
    ("gpt-oss-120b", OSS, 65.28),
    ("gpt-oss-20b", OSS, 13.76),
    ("kimi-k2", INT4, 594.0),
    ("llama-3.1-8b", FP4, 6.03),
    ("qwen3-30b-a3b", ROUTERS, 31.2),
    ("mixtral-8x7b", {"quant_method": "gptq", "bits": 4, "group_size": -1}, 23.8),
    ("qwen2.5-72b", {"quant_method": "gptq", "bits": 8, "group_size": 128}, 77.0),
    ("llama-3.1-8b", {"quant_method": "awq", "bits": 4, "group_size": 128}, 5.73),
    ("llama-3.1-70b", {"quant_algo": "NVFP4", "quant_method": "modelopt"}, 42.7),
]
"""Models, the quantization_config of their config.json, and the gigabytes of their files."""


def test_what_a_config_says_of_packing_gives_the_size_of_the_files() -> None:
    wrong = []
    for name, packing, size in DESCRIBED:
        facts = name_facts(name)
        stored, note = config_format({"quantization_config": packing})
        found = model_weights_bytes(replace(facts, stored=stored), EstimateOptions()) / 1e9
        if note is not None or abs(found / size - 1) > 0.03:
            wrong.append((name, stored.label, round(found, 2), size, note))
    assert wrong == []


ONE_BY_ONE = [
    *(f"model.layers.{layer}.self_attn.q_proj" for layer in range(126)),
    *(f"model.layers.{layer}.mlp.down_proj" for layer in (0, 125)),
]


def test_attention_that_is_left_plain_counts_as_such() -> None:
    stored, _ = config_format(
        {"quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ONE_BY_ONE}}
    )
    assert (stored.plain_attention, stored.experts_only) == (True, False)
    first, _ = config_format(
        {"quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ONE_BY_ONE[:1]}}
    )
    assert (first.plain_attention, first.experts_only) == (False, False)


def gigabytes(name: str) -> float:
    return model_weights_bytes(name_facts(name), EstimateOptions()) / 1e9


def wrong(published: dict[str, float], tolerance: float) -> dict[str, tuple[float, float]]:
    found = {name: gigabytes(name) for name in published}
    return {
        name: (round(found[name], 2), size)
        for name, size in published.items()
        if abs(found[name] / size - 1) > tolerance
    }


def test_plain_weights_are_within_two_percent_of_what_is_published() -> None:
    assert wrong(PLAIN, 0.02) == {}


def test_packed_weights_are_within_three_percent_of_what_is_published() -> None:
    """A13: gpt-oss-120b had 218 GiB, and has 61."""
    assert wrong(PACKED, 0.03) == {}


def test_mixtures_of_llama_cpp_are_within_eight_percent_of_what_is_published() -> None:
    assert wrong({f"{model}-{kind}.gguf": size for (model, kind), size in GGUF.items()}, 0.08) == {}


def test_every_packed_form_is_named_as_such() -> None:
    for name in (*PACKED, *(f"{model}-{kind}" for model, kind in GGUF)):
        label = stored_as(name_facts(name), EstimateOptions()).label
        assert label not in ("bfloat16", "float16", "float32"), name
