"""How weights and caches are stored: plain types, and the formats that pack them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from andon.core.estimate.shape import WeightFormat
from andon.errors import Invalid

PLAIN_BITS = {
    "float32": 32, "fp32": 32, "float": 32, "f32": 32,
    "bfloat16": 16, "bf16": 16, "float16": 16, "fp16": 16, "half": 16, "f16": 16,
}  # fmt: skip
"""The types of plain weights, in every spelling."""
KV_BITS = {**PLAIN_BITS, "fp8": 8, "fp8_e4m3": 8, "fp8_e5m2": 8, "int8": 8, "fp4": 4, "nvfp4": 4.5}
AUTO = "auto"
_GROUP = 128
_GGUF_BITS = {
    "q2_k": 2.63, "q3_k_s": 3.44, "q3_k_m": 3.91, "q3_k_l": 4.27, "q4_0": 4.55, "q4_k_s": 4.58,
    "q4_k_m": 4.85, "q5_0": 5.54, "q5_k_s": 5.54, "q5_k_m": 5.69, "q6_k": 6.59, "q8_0": 8.5,
}  # fmt: skip
"""Bits per weight of whole files in llama.cpp's mixtures."""


def plain(bits: int = 16) -> WeightFormat:
    return WeightFormat(bits, float(bits), "float32" if bits == 32 else "bfloat16")


def packed(
    label: str, bits: float, *, group: int = 0, is_block: bool = False, experts_only: bool = False
) -> WeightFormat:
    return WeightFormat(16, bits, label, experts_only, group, is_block)


def _grouped(label: str, bits: int, group: int) -> WeightFormat:
    """A 16-bit scale and a zero point for each group; a group of -1 is a whole column."""
    size = group if group > 0 else 0
    extra = (16 + bits) / size if size else 0.0
    return packed(f"{label} {bits}-bit", bits + extra, group=size)


def named_format(word: str) -> WeightFormat | None:
    """The format that an engine's --quantization or part of a model's name means."""
    word = word.lower().replace("-", "_")
    if word in _GGUF_BITS:
        return packed(f"GGUF {word.upper()}", _GGUF_BITS[word])
    match word:
        case "awq" | "awq_marlin" | "gptq" | "gptq_marlin" | "auto_round" | "autoround":
            return _grouped(word.partition("_")[0].upper(), 4, _GROUP)
        case "int4" | "w4a16" | "4bit" | "4bits" | "w4a8":
            return _grouped("INT4", 4, _GROUP)
        case "fp8" | "fp8_e4m3" | "w8a8_fp8" | "ptpc_fp8" | "modelopt" | "fbgemm_fp8":
            return packed("FP8", 8.0)
        case "int8" | "w8a8" | "w8a16" | "8bit" | "8bits" | "w8a8_int8" | "experts_int8":
            return packed("INT8", 8.0)
        case "mxfp4":
            return packed("MXFP4", 4.25, group=32, experts_only=True)
        case "nvfp4" | "fp4" | "modelopt_fp4" | "petit_nvfp4":
            return packed("NVFP4", 4.5, group=16)
        case "bitsandbytes" | "bnb" | "nf4" | "bnb_4bit":
            return packed("bitsandbytes 4-bit", 4.5)
        case "mxfp8":
            return packed("MXFP8", 8.25, group=32)
        case _:
            return None


def asked_format(word: str) -> WeightFormat:
    """The same for an option; a format it does not know is refused."""
    found = named_format(word) or (plain(PLAIN_BITS[word]) if word in PLAIN_BITS else None)
    if found is None:
        hint = "awq, gptq, fp8, int8, mxfp4, nvfp4, bitsandbytes"
        raise Invalid(f"quantization {word[:40]!r} is not known", hint=hint)
    return found


def plain_bits(word: str, option: str = "dtype") -> int:
    bits = PLAIN_BITS.get(word.lower().removeprefix("torch."))
    if bits is None:
        packed = f"; packed weights: --quantization {word}" * (named_format(word) is not None)
        hint = f"float32, bfloat16 or float16{packed}"
        raise Invalid(f"{option} {word[:40]!r} is not known", hint=hint)
    return bits


def cache_bits(word: str) -> float:
    bits = KV_BITS.get(word.lower())
    if bits is None:
        raise Invalid(f"KV cache type {word[:40]!r} is not known", hint="auto, bfloat16 or fp8")
    return bits


def config_format(config: Mapping[str, Any]) -> tuple[WeightFormat, str | None]:
    """The format that a config.json names, and a note where it is not known."""
    written = config.get("torch_dtype") or config.get("dtype")
    bits = PLAIN_BITS.get(str(written).lower().removeprefix("torch."), 16)
    about = config.get("quantization_config") or config.get("compression_config")
    if not isinstance(about, Mapping):
        return plain(bits), None
    found = _described(about)
    if found is None:
        method = str(about.get("quant_method"))[:40]
        return plain(bits), f"quantisation {method!r} is not known; weights are taken as plain"
    return found, None


def _described(about: Mapping[str, Any]) -> WeightFormat | None:
    method = str(about.get("quant_method") or about.get("quant_algo") or "").lower()
    skipped = " ".join(map(str, _list(about.get("modules_to_not_convert"))))
    bits, group = about.get("bits"), about.get("group_size")
    if (
        method in ("awq", "gptq", "auto-round", "autoround")
        and type(bits) is int
        and 1 <= bits <= 16
    ):
        return _grouped(method.upper(), bits, group if type(group) is int else _GROUP)
    if method == "fp8":
        block = _list(about.get("weight_block_size"))
        if block and all(type(size) is int and size > 0 for size in block):
            size, area = int(block[0]), 1
            for side in block:
                area *= int(side)
            return packed("FP8", 8 + 32 / area, group=size, is_block=True)
        return packed("FP8", 8.0)
    if method == "mxfp4":
        return packed("MXFP4", 4.25, group=32, experts_only="self_attn" in skipped or not skipped)
    if method == "bitsandbytes" or about.get("load_in_4bit") or about.get("load_in_8bit"):
        if about.get("load_in_8bit"):
            return packed("bitsandbytes 8-bit", 8.0)
        return packed("bitsandbytes 4-bit", 4.127 if _is_double(about) else 4.5)
    if method == "compressed-tensors":
        return _compressed(about)
    if method.startswith("modelopt") or "quant_algo" in about:
        algo = str(about.get("quant_algo") or method).lower()
        return named_format("nvfp4" if "fp4" in algo else "fp8" if "fp8" in algo else algo)
    return named_format(method)


def _is_double(about: Mapping[str, Any]) -> bool:
    return bool(about.get("bnb_4bit_use_double_quant"))


def _compressed(about: Mapping[str, Any]) -> WeightFormat | None:
    groups = about.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = first.get("weights") if isinstance(first, Mapping) else None
    if not isinstance(weights, Mapping):
        return None
    bits, group = weights.get("num_bits"), weights.get("group_size")
    if type(bits) is not int or not 1 <= bits <= 16:
        return None
    if bits == 8:
        return packed("FP8" if weights.get("type") == "float" else "INT8", 8.0)
    return _grouped("compressed", bits, group if type(group) is int else -1)


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


_NAME_WORDS = re.compile(
    r"(?<![a-z0-9])(awq|gptq|int4|w4a16|4bits?|fp8|int8|w8a8|w8a16|8bits?|mxfp4|nvfp4|fp4|bnb[-_]4bit"
    r"|nf4|iq?\d_\w+|q\d(?:_\w+)*)(?![a-z0-9])",
    re.IGNORECASE,
)


_PUBLISHED = {
    r"gpt[-_]oss": "mxfp4",
    r"deepseek-(v3|r1)(?!.*distill)": "fp8",
    r"kimi-k2": "fp8",
}
"""Models whose weights are published packed, although their names do not say so."""


def format_in_name(name: str) -> WeightFormat | None:
    """`Qwen2.5-7B-Instruct-AWQ`, `llama-3-8b-Q4_K_M.gguf`; None if the name says nothing."""
    for match in _NAME_WORDS.finditer(name):
        found = named_format(match[1])
        if found is not None:
            return found
    for pattern, word in _PUBLISHED.items():
        if re.search(rf"(?<![a-z0-9])({pattern})(?![a-z0-9])", name, re.IGNORECASE):
            return named_format(word)
    return None
