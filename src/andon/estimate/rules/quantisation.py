"""How weights and caches are stored: plain types, and the formats that pack them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from andon.errors import Invalid
from andon.estimate.rules.shape import WeightFormat

PLAIN_BITS = {
    "float32": 32, "fp32": 32, "float": 32, "f32": 32,
    "bfloat16": 16, "bf16": 16, "float16": 16, "fp16": 16, "half": 16, "f16": 16,
}  # fmt: skip
"""The types of plain weights, in every spelling."""
KV_BITS = {**PLAIN_BITS, "fp8": 8, "fp8_e4m3": 8, "fp8_e5m2": 8, "int8": 8, "fp4": 4, "nvfp4": 4.5}
AUTO = "auto"
_GROUP, _MX_GROUP = 128, 32
_GGUF_BITS = {
    "iq1_s": 2.0, "iq1_m": 2.15, "iq2_xxs": 2.38, "iq2_xs": 2.59, "iq2_s": 2.74, "iq2_m": 2.93,
    "iq3_xxs": 3.25, "iq3_xs": 3.5, "iq3_s": 3.66, "iq3_m": 3.76, "iq4_xs": 4.46, "iq4_nl": 4.68,
    "q2_k_s": 2.97, "q2_k": 3.16, "q3_k_s": 3.64, "q3_k_m": 4.0, "q3_k_l": 4.3, "q4_0": 4.64,
    "q4_1": 5.11, "q4_k_s": 4.67, "q4_k_m": 4.89, "q5_0": 5.57, "q5_1": 6.04, "q5_k_s": 5.57,
    "q5_k_m": 5.7, "q6_k": 6.56, "q8_0": 8.5,
}  # fmt: skip
"""Bits per weight of whole files in llama.cpp's mixtures, of Llama 3.1 8B; larger models have up to
six percent less."""
_EXCEPTIONS = ("modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers")
_LAYER = re.compile(r"layers\.(\d+)\.")
_MANY_LAYERS = 12  # fewer are the first and the last ones
_BNB_BITS = 4.127  # with scales that are packed themselves, as is usual


_LABELS = {"float32": "float32", "bfloat16": "bfloat16", "bf16": "bfloat16"}


def plain(word: str = "bfloat16") -> WeightFormat:
    """Returns the format of a plain type, in any of its spellings."""
    bits = PLAIN_BITS[word]
    label = _LABELS.get(word, "float32" if bits == 32 else "float16")
    return WeightFormat(bits, float(bits), label)


def packed(
    label: str, bits: float, *, group: int = 0, is_block: bool = False, experts_only: bool = False
) -> WeightFormat:
    return WeightFormat(16, bits, label, experts_only, group, is_block)


def whole_file(kind: str, bits: float) -> WeightFormat:
    """Returns the format of a GGUF file: all of it is packed, to this many bits on average."""
    return replace(packed(f"GGUF {kind}".rstrip(), bits), packs_all=True)


def _grouped(label: str, bits: int, group: int, zero_bits: int | None = None) -> WeightFormat:
    """Returns a format with a 16-bit scale and a zero point per group; -1 is a whole column."""
    size = group if group > 0 else 0
    extra = (16 + (bits if zero_bits is None else zero_bits)) / size if size else 0.0
    return packed(f"{label} {bits}-bit", bits + extra, group=size)


def named_format(word: str) -> WeightFormat | None:
    """Returns the format of an engine's --quantization or of a part of a model's name."""
    word = word.lower().replace("-", "_")
    if word in _GGUF_BITS:
        return whole_file(word.upper(), _GGUF_BITS[word])
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
            return packed("MXFP4", 4.25, group=_MX_GROUP, experts_only=True)
        case "nvfp4" | "fp4" | "modelopt_fp4" | "petit_nvfp4":
            return packed("NVFP4", 4.5, group=16)
        case "bitsandbytes" | "bnb" | "nf4" | "bnb_4bit":
            return packed("bitsandbytes 4-bit", _BNB_BITS)
        case "mxfp8":
            return packed("MXFP8", 8.25, group=32)
        case _:
            return None


def requested_format(word: str) -> WeightFormat:
    """Returns the format that an option names; refuses an unknown one."""
    found = named_format(word) or (plain(word) if word in PLAIN_BITS else None)
    if found is None:
        hint = "awq, gptq, fp8, int8, mxfp4, nvfp4, bitsandbytes"
        raise Invalid(f"quantization {word[:40]!r} is not known", hint=hint)
    return found


def plain_bits(word: str) -> int:
    bits = PLAIN_BITS.get(word.lower().removeprefix("torch."))
    if bits is None:
        packed = f"; packed weights: --quantization {word}" * (named_format(word) is not None)
        hint = f"float32, bfloat16 or float16{packed}"
        raise Invalid(f"dtype {word[:40]!r} is not known", hint=hint)
    return bits


def cache_bits(word: str) -> float:
    bits = KV_BITS.get(word.lower())
    if bits is None:
        raise Invalid(f"KV cache type {word[:40]!r} is not known", hint="auto, bfloat16 or fp8")
    return bits


def config_format(config: Mapping[str, Any]) -> tuple[WeightFormat, str | None]:
    """Returns the format in a config.json, and a note if it is not known."""
    written = config.get("torch_dtype") or config.get("dtype")
    word = str(written).lower().removeprefix("torch.")
    stored = plain(word if word in PLAIN_BITS else "bfloat16")
    about = config.get("quantization_config") or config.get("compression_config")
    if not isinstance(about, Mapping):
        return stored, None
    found = _described(about)
    if found is None:
        method = str(about.get("quant_method"))[:40]
        return stored, f"quantisation {method!r} is not known; weights are taken as plain"
    return _with_exceptions(found, about), None


def _with_exceptions(found: WeightFormat, about: Mapping[str, Any]) -> WeightFormat:
    """Returns the format with its unpacked parts: attention, or everything but the experts."""
    skipped = [str(one) for name in _EXCEPTIONS for one in _list(about.get(name))]
    attention = _is_general([one for one in skipped if "attn" in one])
    dense = _is_general([one for one in skipped if "shared_expert" in one or _is_dense(one)])
    if attention and dense:
        return replace(found, experts_only=True)
    return replace(found, plain_attention=True) if attention else found


def _is_dense(name: str) -> bool:
    """Whether a name is a feed-forward part, and not the router, `mlp.gate`."""
    return "mlp" in name and "proj" in name


def _is_general(names: Sequence[str]) -> bool:
    """Whether module names cover all layers: by a pattern, or one by one."""
    layers = {match[1] for one in names if (match := _LAYER.search(one))}
    return len(layers) >= _MANY_LAYERS or any(_LAYER.search(one) is None for one in names)


def _described(about: Mapping[str, Any]) -> WeightFormat | None:
    method = str(about.get("quant_method") or about.get("quant_algo") or "").lower()
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
        return named_format(method)
    if method == "bitsandbytes" or about.get("load_in_4bit") or about.get("load_in_8bit"):
        if about.get("load_in_8bit"):
            return packed("bitsandbytes 8-bit", 8.0)
        double = about.get("bnb_4bit_use_double_quant")
        return packed("bitsandbytes 4-bit", _BNB_BITS if double else 4.5)
    if method == "compressed-tensors":
        return _compressed(about)
    if method.startswith("modelopt") or "quant_algo" in about:
        algo = str(about.get("quant_algo") or method).lower()
        return named_format("nvfp4" if "fp4" in algo else "fp8" if "fp8" in algo else algo)
    return named_format(method)


def _compressed(about: Mapping[str, Any]) -> WeightFormat | None:
    groups = about.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = first.get("weights") if isinstance(first, Mapping) else None
    if not isinstance(weights, Mapping):
        return None
    bits, group = weights.get("num_bits"), weights.get("group_size")
    if type(bits) is not int or not 1 <= bits <= 16:
        return None
    is_float = weights.get("type") == "float"
    if bits == 8:
        return packed("FP8" if is_float else "INT8", 8.0)
    if bits == 4 and is_float:
        is_mx = group == _MX_GROUP
        return packed("MXFP4", 4.25, group=_MX_GROUP) if is_mx else named_format("nvfp4")
    zero = 0 if weights.get("symmetric") is True else bits
    return _grouped("INT", bits, group if type(group) is int else -1, zero)


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


_FORMAT_IN_NAME = re.compile(
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
    """Returns the format in a name: `Qwen2.5-7B-Instruct-AWQ`, `llama-3-8b-Q4_K_M.gguf`; None if
    there is none."""
    for match in _FORMAT_IN_NAME.finditer(name):
        found = named_format(match[1])
        if found is not None:
            return found
    for pattern, word in _PUBLISHED.items():
        if re.search(rf"(?<![a-z0-9])({pattern})(?![a-z0-9])", name, re.IGNORECASE):
            return named_format(word)
    return None
