"""What each family of models has beyond the numbers in its config.json."""

from typing import NamedTuple


class FamilyTraits(NamedTuple):
    """What a config.json of this family leaves out."""

    is_gated: bool = True
    is_tied: bool = False  # where the file does not say
    has_qk_norm: bool = False
    has_qkv_bias: bool = False
    learned_positions: int = 0  # 1: has them; 2: and two more than it says
    window_every: int = 0  # every n-th layer sees everything; 0: all layers alike


LLAMA = FamilyTraits()
_TIED = FamilyTraits(is_tied=True)
_PLAIN = FamilyTraits(is_gated=False)
_PLAIN_TIED = FamilyTraits(is_gated=False, is_tied=True)
_BIAS = FamilyTraits(has_qkv_bias=True)
_QK_NORM = FamilyTraits(has_qk_norm=True)

_LIKE_LLAMA = (
    "llama", "mistral", "mixtral", "ministral", "ministral3", "mistral4", "phi3", "phimoe",
    "granite", "granitemoe", "internlm2", "internlm3", "yi", "baichuan", "stablelm", "minicpm",
    "minicpm3", "deepseek", "deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "exaone",
    "smollm3", "nemotron_nas", "arcee", "helium", "aquila", "xverse", "orion", "solar", "bitnet",
    "ernie4_5", "ernie4_5_moe", "olmo", "glm", "glm4", "seed_oss", "minimax_m1",
    "hunyuan_v1_dense", "apertus",
)  # fmt: skip

FAMILIES: dict[str, FamilyTraits] = {
    **dict.fromkeys(_LIKE_LLAMA, LLAMA),
    "gemma": _TIED,
    "gemma2": FamilyTraits(is_tied=True, window_every=2),
    "gemma3_text": FamilyTraits(is_tied=True, has_qk_norm=True, window_every=6),
    "cohere": _TIED,
    "cohere2": FamilyTraits(is_tied=True, window_every=4),
    "qwen": _BIAS,
    "qwen2": _BIAS,
    "qwen2_moe": _BIAS,
    "qwen2_vl_text": _BIAS,
    "qwen2_5_vl_text": _BIAS,
    "chatglm": _BIAS,
    "qwen3": _QK_NORM,
    "qwen3_moe": _QK_NORM,
    "qwen3_vl_text": _QK_NORM,
    "qwen3_vl_moe_text": _QK_NORM,
    "olmo2": _QK_NORM,
    "olmo3": _QK_NORM,
    "olmoe": _QK_NORM,
    "glm4_moe": FamilyTraits(has_qk_norm=True, has_qkv_bias=True),
    "gpt_oss": FamilyTraits(has_qkv_bias=True, window_every=2),
    "llama4_text": FamilyTraits(window_every=4),
    "gpt2": FamilyTraits(False, True, learned_positions=1, has_qkv_bias=True),
    "opt": FamilyTraits(False, True, learned_positions=2, has_qkv_bias=True),
    "gpt_bigcode": FamilyTraits(False, True, learned_positions=1, has_qkv_bias=True),
    "bloom": FamilyTraits(False, True, has_qkv_bias=True),
    "falcon": _PLAIN_TIED,
    "mpt": _PLAIN_TIED,
    "starcoder2": FamilyTraits(False, True, has_qkv_bias=True),
    "gpt_neox": FamilyTraits(False, has_qkv_bias=True),
    "gptj": _PLAIN,
    "phi": FamilyTraits(False, has_qkv_bias=True),
    "nemotron": _PLAIN,
}
"""By `model_type` of the text part."""

MULTIMODAL = {
    "mistral3": ("mistral", True),
    "pixtral": ("mistral", True),
    "llava": ("llama", False),
    "llava_next": ("llama", False),
    "qwen2_vl": ("qwen2", False),
    "qwen2_5_vl": ("qwen2", True),
    "qwen3_vl": ("qwen3", False),
    "qwen3_vl_moe": ("qwen3_moe", False),
    "gemma3": ("gemma3_text", False),
    "llama4": ("llama4_text", False),
    "internvl": ("qwen2", False),
    "internvl_chat": ("llama", False),
    "idefics3": ("llama", False),
    "smolvlm": ("llama", False),
    "deepseek_vl_v2": ("deepseek_v2", False),
    "glm4v": ("glm4", True),
    "kimi_vl": ("deepseek_v3", False),
}
"""Of models with a tower for pictures: the family of the text part where the file does not say it,
and whether the tower's feed-forward parts have three matrices."""
