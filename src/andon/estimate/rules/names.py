"""Reads facts from a model's name alone: its size, its packing, and a likely shape."""

import re

from msgspec.structs import replace

from andon.errors import Invalid
from andon.estimate.rules.known_models import known_model
from andon.estimate.rules.quantisation import format_in_name, plain
from andon.estimate.rules.shape import (
    EstimateConfidence,
    ExpertLayers,
    FactSource,
    LatentAttention,
    ModelFacts,
    ModelShape,
)
from andon.estimate.rules.weights import parameters

BILLION, MILLION = 10**9, 10**6
SMALLEST, LARGEST = MILLION, 100_000 * BILLION
MOST_CHARACTERS = 300
_SIZE = re.compile(r"(?<![a-z0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)([bm])(?![a-z])", re.IGNORECASE)

_KNOWN = (
    ("deepseek-v2-lite", 15.7), ("deepseek-v2", 236), ("deepseek-v3", 671), ("deepseek-r1", 671),
    ("deepseek-chat", 671), ("kimi-k2", 1026), ("mixtral-8x7b", 46.7), ("mixtral-8x22b", 140.6),
    ("llama-4-scout", 108.6), ("llama-4-maverick", 400.7), ("17b-16e", 108.6), ("17b-128e", 400.7),
    ("phi-4-mini", 3.84), ("phi-4", 14.7), ("phi-3.5-moe", 41.9), ("phi-3.5-mini", 3.82),
    ("phi-3-mini", 3.82), ("phi-3-medium", 14), ("phi-2", 2.78), ("mistral-large", 123),
    ("mistral-nemo", 12.2), ("codestral", 22.2), ("command-r-plus", 104), ("command-r", 35),
    ("dbrx", 132), ("grok-1", 314), ("gpt2-xl", 1.56), ("gpt2-large", 0.774),
    ("gpt2-medium", 0.355), ("stablelm-2-1_6b", 1.64), ("glm-4.5-air", 106), ("glm-4.5", 355),
    ("glm-4.6", 355), ("minimax-m1", 456), ("minimax-m2", 230), ("gpt-oss-20b", 20.9),
    ("gpt-oss-120b", 116.8), ("gpt2", 0.124), ("tinyllama", 1.1),
)  # fmt: skip
"""Billions of parameters of names that carry no size, or the size of something else; a name that is
a prefix of another follows it."""
_OWN_SIZE = re.compile(r"distill", re.IGNORECASE)


def _dense(
    layers: int, hidden: int, heads: int, kv: int, inner: int, vocab: int, dim: int = 128,
    tied: bool = False,
) -> ModelShape:  # fmt: skip
    return ModelShape("typical", layers, hidden, heads, kv, dim, inner, vocab, tied)


TYPICAL = (
    _dense(30, 576, 9, 3, 1536, 49152, 64, True),
    _dense(24, 896, 14, 2, 4864, 151936, 64, True),
    _dense(16, 2048, 32, 8, 8192, 128256, 64, True),
    _dense(28, 3072, 24, 8, 8192, 128256, 128, True),
    _dense(36, 2560, 32, 8, 9728, 151936, 128, True),
    _dense(32, 4096, 32, 8, 14336, 128256),
    _dense(40, 5120, 40, 8, 17408, 151936),
    _dense(40, 5120, 32, 8, 32768, 131072),
    _dense(64, 5120, 64, 8, 25600, 151936),
    _dense(80, 8192, 64, 8, 28672, 128256),
    _dense(88, 12288, 96, 8, 28672, 32768),
    _dense(126, 16384, 128, 8, 53248, 128256),
    ModelShape(
        "typical", 61, 7168, 128, 128, 128, 18432, 129280,
        latent=LatentAttention(512, 64, 128, 128, 1536),
        experts=ExpertLayers(256, 2048, 8, 58, 2048),
    ),
)  # fmt: skip
"""Shapes of well-known models, by size."""


def parameters_in_name(name: str) -> int | None:
    """Returns the parameters in a name: `llama-3-70b` is 70 billion, `8x7b` 46.7 billion; 0.7b, 17b
    and 27b do not match. None without a number.

    A number after an A (`30B-A3B`) is what one token uses, and not the size.
    """
    last = name.lower().rstrip("/").rpartition("/")[2]
    if not _OWN_SIZE.search(last):
        plain_name = last.replace("_", "-")
        for known, billions in _KNOWN:
            at = plain_name.find(known.replace("_", "-"))
            after = plain_name[at + len(known) : at + len(known) + 1]
            if at >= 0 and not plain_name[at - 1 : at].isalnum() and not after.isalnum():
                return round(billions * BILLION)
    sizes: dict[str, int] = {}
    for match in _SIZE.finditer(last[:MOST_CHARACTERS]):
        unit = match[3].lower()
        count = float(match[2]) * int(match[1] or 1)
        sizes.setdefault(unit, round(count * (BILLION if unit == "b" else MILLION)))
    found = sizes.get("b") or sizes.get("m")
    return found if found is not None and SMALLEST <= found <= LARGEST else None


def typical_shape(count: int) -> ModelShape:
    """Returns the shape of the well-known model of the nearest size."""
    return min(TYPICAL, key=lambda one: abs(_ratio(parameters(one), count)))


def _ratio(one: int, other: int) -> float:
    return max(one, other) / min(one, other)


def name_facts(name: str) -> ModelFacts:
    """Returns the facts in a name; raises Invalid if there are none."""
    if not name.strip() or len(name) > MOST_CHARACTERS or not name.isprintable():
        raise Invalid("this is not the name of a model", hint="for example meta-llama/Llama-3.1-8B")
    count = parameters_in_name(name)
    if count is None:
        raise Invalid(
            f"the name {name[:60]!r} does not contain a size",
            hint="name a folder, a config.json or a file of weights, or a name such as llama-3-8b",
        )
    stored = format_in_name(name) or plain()
    if (model := known_model(name)) is not None:
        shape = model.shape
        return ModelFacts(
            name=name,
            source=FactSource.NAME,
            confidence=EstimateConfidence.MEDIUM,
            shape=replace(shape, context=None),  # variants differ in it
            stored=stored,
            parameters=parameters(shape),
        )
    return ModelFacts(
        name=name,
        source=FactSource.NAME,
        confidence=EstimateConfidence.LOW,
        shape=replace(typical_shape(count), context=None),
        stored=stored,
        parameters=count,
        notes=("known by name alone: the shape of a well-known model of this size is assumed",),
    )
