"""The shapes of well-known models, so that a name alone is enough without its config.json."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from andon.estimate.rules.config_json import config_facts
from andon.estimate.rules.shape import ModelShape


class KnownModel(NamedTuple):
    """A row of the table: what its config.json has."""

    names: str  # separated by |; a name that is part of another one follows it
    family: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    intermediate: int
    vocab: int
    more: Mapping[str, Any] = {}
    tower: int = 0  # the parameters of the part that sees pictures

    @property
    def shape(self) -> ModelShape:
        config = {
            "model_type": self.family, "num_hidden_layers": self.layers,
            "hidden_size": self.hidden, "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads, "intermediate_size": self.intermediate,
            "vocab_size": self.vocab, **self.more,
        }  # fmt: skip
        found = config_facts(config, self.names).shape
        assert found is not None
        return replace(found, other_parameters=self.tower)


def _experts(count: int, width: int, active: int, **more: Any) -> dict[str, Any]:
    return {"num_experts": count, "moe_intermediate_size": width, "num_experts_per_tok": active,
            **more}  # fmt: skip


def _shared(count: int, first_dense: int) -> dict[str, Any]:
    return {"n_shared_experts": count, "first_k_dense_replace": first_dense}


_TIED = {"tie_word_embeddings": True}
_DIM128, _DIM256 = {"head_dim": 128}, {"head_dim": 256}
_WINDOW = {"sliding_window": 1024, "sliding_window_pattern": 6}
_LATENT = {
    "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
}  # fmt: skip
_DEEPSEEK = {**_LATENT, "q_lora_rank": 1536}
_OSS = {"head_dim": 64, "sliding_window": 128}
_WIDE128, _WIDE256 = {**_DIM128, "sliding_window": 4096}, {**_DIM256, "sliding_window": 4096}
_SIGHT = 417_000_000

KNOWN_MODELS = (
    KnownModel("llama-2-7b|llama-7b", "llama", 32, 4096, 32, 32, 11008, 32000),
    KnownModel("llama-2-13b|llama-13b", "llama", 40, 5120, 40, 40, 13824, 32000),
    KnownModel("llama-2-70b", "llama", 80, 8192, 64, 8, 28672, 32000),
    KnownModel("llama-3-8b|llama-3.1-8b", "llama", 32, 4096, 32, 8, 14336, 128256),
    KnownModel("llama-3-70b|llama-3.1-70b|llama-3.3-70b", "llama", 80, 8192, 64, 8, 28672, 128256),
    KnownModel("llama-3.1-405b", "llama", 126, 16384, 128, 8, 53248, 128256),
    KnownModel("llama-3.2-1b", "llama", 16, 2048, 32, 8, 8192, 128256, _TIED),
    KnownModel("llama-3.2-3b", "llama", 28, 3072, 24, 8, 8192, 128256, _TIED),
    KnownModel(
        "llama-4-scout|llama-4-scout-17b-16e",
        "llama4_text",
        48,
        5120,
        40,
        8,
        8192,
        202048,
        {
            **_DIM128,
            "num_local_experts": 16,
            "num_experts_per_tok": 1,
            "intermediate_size_mlp": 16384,
        },
        900_000_000,
    ),
    KnownModel("mistral-7b", "mistral", 32, 4096, 32, 8, 14336, 32768),
    KnownModel("mistral-nemo", "mistral", 40, 5120, 32, 8, 14336, 131072, _DIM128),
    KnownModel(
        "mistral-small-24b|mistral-small-3", "mistral", 40, 5120, 32, 8, 32768, 131072, _DIM128
    ),
    KnownModel("mistral-large", "mistral", 88, 12288, 96, 8, 28672, 32768),
    KnownModel("mixtral-8x7b", "mixtral", 32, 4096, 32, 8, 14336, 32000, _experts(8, 14336, 2)),
    KnownModel("mixtral-8x22b", "mixtral", 56, 6144, 48, 8, 16384, 32768, _experts(8, 16384, 2)),
    KnownModel("qwen2.5-0.5b", "qwen2", 24, 896, 14, 2, 4864, 151936, _TIED),
    KnownModel("qwen2.5-1.5b", "qwen2", 28, 1536, 12, 2, 8960, 151936, _TIED),
    KnownModel("qwen2.5-3b", "qwen2", 36, 2048, 16, 2, 11008, 151936, _TIED),
    KnownModel("qwen2.5-7b", "qwen2", 28, 3584, 28, 4, 18944, 152064),
    KnownModel("qwen2.5-14b", "qwen2", 48, 5120, 40, 8, 13824, 152064),
    KnownModel("qwen2.5-32b", "qwen2", 64, 5120, 40, 8, 27648, 152064),
    KnownModel("qwen2.5-72b", "qwen2", 80, 8192, 64, 8, 29568, 152064),
    KnownModel("qwen3-0.6b", "qwen3", 28, 1024, 16, 8, 3072, 151936, {**_DIM128, **_TIED}),
    KnownModel("qwen3-1.7b", "qwen3", 28, 2048, 16, 8, 6144, 151936, {**_DIM128, **_TIED}),
    KnownModel("qwen3-4b", "qwen3", 36, 2560, 32, 8, 9728, 151936, {**_DIM128, **_TIED}),
    KnownModel("qwen3-8b", "qwen3", 36, 4096, 32, 8, 12288, 151936, _DIM128),
    KnownModel("qwen3-14b", "qwen3", 40, 5120, 40, 8, 17408, 151936, _DIM128),
    KnownModel("qwen3-32b", "qwen3", 64, 5120, 64, 8, 25600, 151936, _DIM128),
    KnownModel(
        "qwen3-30b-a3b",
        "qwen3_moe",
        48,
        2048,
        32,
        4,
        6144,
        151936,
        _experts(128, 768, 8, **_DIM128),
    ),
    KnownModel(
        "qwen3-235b-a22b",
        "qwen3_moe",
        94,
        4096,
        64,
        4,
        12288,
        151936,
        _experts(128, 1536, 8, **_DIM128),
    ),
    KnownModel("gemma-2-2b", "gemma2", 26, 2304, 8, 4, 9216, 256000, _WIDE256),
    KnownModel("gemma-2-9b", "gemma2", 42, 3584, 16, 8, 14336, 256000, _WIDE256),
    KnownModel("gemma-2-27b", "gemma2", 46, 4608, 32, 16, 36864, 256000, _WIDE128),
    KnownModel(
        "gemma-3-1b",
        "gemma3_text",
        26,
        1152,
        4,
        1,
        6912,
        262144,
        {**_DIM256, **_WINDOW, "sliding_window": 512},
    ),
    KnownModel(
        "gemma-3-4b", "gemma3_text", 34, 2560, 8, 4, 10240, 262208, {**_DIM256, **_WINDOW}, _SIGHT
    ),
    KnownModel(
        "gemma-3-12b", "gemma3_text", 48, 3840, 16, 8, 15360, 262208, {**_DIM256, **_WINDOW}, _SIGHT
    ),
    KnownModel(
        "gemma-3-27b",
        "gemma3_text",
        62,
        5376,
        32,
        16,
        21504,
        262208,
        {**_DIM128, **_WINDOW},
        _SIGHT,
    ),
    KnownModel("phi-4-mini", "phi3", 32, 3072, 24, 8, 8192, 200064, _TIED),
    KnownModel("phi-4", "phi3", 40, 5120, 40, 10, 17920, 100352),
    KnownModel("phi-3-mini|phi-3.5-mini", "phi3", 32, 3072, 32, 32, 8192, 32064),
    KnownModel("phi-3-medium", "phi3", 40, 5120, 40, 10, 17920, 32064),
    KnownModel("phi-3.5-moe", "phimoe", 32, 4096, 32, 8, 6400, 32064, _experts(16, 6400, 2)),
    KnownModel(
        "gpt-oss-20b", "gpt_oss", 24, 2880, 64, 8, 2880, 201088, _experts(32, 2880, 4, **_OSS)
    ),
    KnownModel(
        "gpt-oss-120b", "gpt_oss", 36, 2880, 64, 8, 2880, 201088, _experts(128, 2880, 4, **_OSS)
    ),
    KnownModel(
        "deepseek-v2-lite",
        "deepseek_v2",
        27,
        2048,
        16,
        16,
        10944,
        102400,
        _experts(64, 1408, 6, **_shared(2, 1), **_LATENT),
    ),
    KnownModel(
        "deepseek-v3|deepseek-v3.1|deepseek-r1|deepseek-chat",
        "deepseek_v3",
        61,
        7168,
        128,
        128,
        18432,
        129280,
        _experts(256, 2048, 8, **_shared(1, 3), **_DEEPSEEK),
    ),
    KnownModel(
        "kimi-k2",
        "kimi_k2",
        61,
        7168,
        64,
        64,
        18432,
        163840,
        _experts(384, 2048, 8, **_shared(1, 1), **_DEEPSEEK),
    ),
    KnownModel(
        "glm-4.5-air",
        "glm4_moe",
        46,
        4096,
        96,
        8,
        10944,
        151552,
        _experts(128, 1408, 8, **_shared(1, 1), **_DIM128),
    ),
)

_DISTILLED = re.compile(r"distill", re.IGNORECASE)  # a smaller model with the name of a larger one


def known_model(name: str) -> KnownModel | None:
    """Returns the well-known model of which a name is a variant: `Qwen2.5-7B-Instruct-AWQ`."""
    last = name.lower().rstrip("/").rpartition("/")[2].replace("_", "-")
    if _DISTILLED.search(last):
        return None
    for model in KNOWN_MODELS:
        for own in model.names.split("|"):
            if re.search(rf"(?<![a-z0-9.]){re.escape(own)}(?![a-z0-9.]*[a-z0-9])", last):
                return model
    return None
