"""The public config.json values of well-known models, as far as memory depends on them."""

from typing import Any


def _config(family: str, hidden: int, layers: int, heads: int, kv: int, inner: int, vocab: int,
            **more: Any) -> dict[str, Any]:  # fmt: skip
    return {
        "model_type": family, "hidden_size": hidden, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv, "intermediate_size": inner,
        "vocab_size": vocab, **more,
    }  # fmt: skip


_FP8 = {
    "quant_method": "compressed-tensors",
    "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
}
_BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128]}
_QWEN3_30B = _config(
    "qwen3_moe", 2048, 48, 32, 4, 6144, 151936, head_dim=128, moe_intermediate_size=768,
    num_experts=128, num_experts_per_tok=8, decoder_sparse_step=1, mlp_only_layers=[],
)  # fmt: skip

CONFIGS: dict[str, dict[str, Any]] = {
    "Llama-3.1-8B": _config(
        "llama", 4096, 32, 32, 8, 14336, 128256, tie_word_embeddings=False,
        max_position_embeddings=131072, torch_dtype="bfloat16",
    ),
    "Llama-3.3-70B-FP8": _config(
        "llama", 8192, 80, 64, 8, 28672, 128256, quantization_config=_FP8
    ),
    "Qwen3-32B": _config("qwen3", 5120, 64, 64, 8, 25600, 151936, head_dim=128),
    "Qwen3-0.6B": _config(
        "qwen3", 1024, 28, 16, 8, 3072, 151936, head_dim=128, tie_word_embeddings=True
    ),
    "Mistral-Small-24B": {
        "model_type": "mistral3",
        "spatial_merge_size": 2,
        "text_config": _config("mistral", 5120, 40, 32, 8, 32768, 131072, head_dim=128),
        "vision_config": {
            "model_type": "pixtral", "hidden_size": 1024, "num_hidden_layers": 24,
            "intermediate_size": 4096,
        },
    },
    "DeepSeek-V3": _config(
        "deepseek_v3", 7168, 61, 128, 128, 18432, 129280, moe_intermediate_size=2048,
        n_routed_experts=256, n_shared_experts=1, num_experts_per_tok=8, first_k_dense_replace=3,
        kv_lora_rank=512, q_lora_rank=1536, qk_rope_head_dim=64, qk_nope_head_dim=128,
        v_head_dim=128, quantization_config=_BLOCKS, max_position_embeddings=163840,
    ),
    "Mixtral-8x7B": _config(
        "mixtral", 4096, 32, 32, 8, 14336, 32000, num_local_experts=8, num_experts_per_tok=2
    ),
    "Qwen3-30B-A3B": _QWEN3_30B,
    "Qwen3-30B-A3B-FP8": {**_QWEN3_30B, "quantization_config": _BLOCKS},
    "gpt-oss-20b": _config(
        "gpt_oss", 2880, 24, 64, 8, 2880, 201088, head_dim=64, num_local_experts=32,
        num_experts_per_tok=4, sliding_window=128,
        quantization_config={
            "quant_method": "mxfp4",
            "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router"],
        },
    ),
    "Llama-4-Scout": {
        "model_type": "llama4",
        "text_config": _config(
            "llama4_text", 5120, 48, 40, 8, 8192, 202048, head_dim=128, num_local_experts=16,
            num_experts_per_tok=1, intermediate_size_mlp=16384, interleave_moe_layer_step=1,
        ),
        "vision_config": {
            "hidden_size": 1408, "num_hidden_layers": 34, "intermediate_size": 5632,
        },
    },
    "gemma-3-27b": {
        "model_type": "gemma3",
        "text_config": _config(
            "gemma3_text", 5376, 62, 32, 16, 21504, 262208, head_dim=128, sliding_window=1024,
            sliding_window_pattern=6,
        ),
        "vision_config": {
            "hidden_size": 1152, "num_hidden_layers": 27, "intermediate_size": 4304,
        },
    },
    "gemma-2-9b": _config(
        "gemma2", 3584, 42, 16, 8, 14336, 256000, head_dim=256, sliding_window=4096
    ),
    "falcon-7b": {
        "model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32,
        "num_attention_heads": 71, "multi_query": True, "vocab_size": 65024,
    },
    "gpt2": {
        "model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
        "vocab_size": 50257,
    },
    "opt-6.7b": {
        "model_type": "opt", "hidden_size": 4096, "num_hidden_layers": 32,
        "num_attention_heads": 32, "ffn_dim": 16384, "vocab_size": 50272,
        "max_position_embeddings": 2048,
    },
    "Qwen2.5-7B-AWQ": _config(
        "qwen2", 3584, 28, 28, 4, 18944, 152064, use_sliding_window=False, sliding_window=131072,
        quantization_config={"quant_method": "awq", "bits": 4, "group_size": 128},
    ),
    "GLM-4.5-Air": _config(
        "glm4_moe", 4096, 46, 96, 8, 10944, 151552, head_dim=128, moe_intermediate_size=1408,
        n_routed_experts=128, n_shared_experts=1, num_experts_per_tok=8, first_k_dense_replace=1,
        attention_bias=True,
    ),
}  # fmt: skip
