"""What people call a model of device: without its maker, and how many of which there are."""

import re
from collections import Counter
from collections.abc import Iterable

_NOISE = re.compile(
    r"\b(NVIDIA|GeForce|Tesla|Quadro|AMD|Radeon(?= (RX|PRO|Pro))|Instinct|ATI|Intel(\(R\))?"
    r"|Data Center GPU|Generation|Graphics|Corporation|\(R\)|\(TM\))(?=\s|$)"
    r"|(\s*\((simulated|replayed)\))+$"
)
_SIZE = re.compile(r"[- ]\d+ ?GB\b|[- ]HBM\d\w?|[- ]PCIe\b")


def short_model(name: str, brief: bool = False) -> str:
    """A model's name without its maker, and without its size if `brief`."""
    short = _NOISE.sub("", name)
    if brief:
        short = _SIZE.sub("", short)
    return " ".join(short.split()) or name


def models_in_words(names: Iterable[str]) -> str:
    """`2 × H200`, `1 × H100 + 2 × A100`; empty where there is none."""
    counted = Counter(short_model(name, brief=True) for name in names)
    return " + ".join(f"{count} × {model}" for model, count in counted.items())
