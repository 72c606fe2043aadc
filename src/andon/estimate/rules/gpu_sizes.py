"""GPUs that are not here: what `4xH100` means, and how much memory well-known models have."""

import re

from andon.errors import Invalid
from andon.estimate.rules.fits import GpuCapacity
from andon.units import MIB, parse_bytes

MOST_GPUS = 4096
MOST_CHARACTERS = 400
RESERVED_BYTES = 600 * MIB
"""What the driver keeps of an empty card (645 MB were measured on an H200)."""
GPU_MIB = {
    "B300": 275_040, "GB300": 275_040, "B200": 183_359, "GB200": 189_471, "H200": 143_771,
    "GH200": 97_871, "H20": 97_871, "H100": 81_559, "H100-94GB": 95_830, "H800": 81_559,
    "A100": 81_920, "A100-80GB": 81_920, "A100-40GB": 40_960, "A800": 81_920, "A40": 46_068,
    "A30": 24_576, "A10": 23_028, "A10G": 23_028, "A6000": 49_140, "A5000": 24_564, "A4000": 16_376,
    "L40S": 46_068, "L40": 46_068, "L4": 23_034, "T4": 15_360, "V100": 32_768, "V100-16GB": 16_384,
    "P100": 16_384, "RTX 6000 Ada": 49_140, "RTX PRO 6000": 97_887, "RTX 5090": 32_607,
    "RTX 5080": 16_303, "RTX 5070 Ti": 16_303, "RTX 4090": 24_564, "RTX 4080": 16_376,
    "RTX 4070": 12_282, "RTX 4060": 8_188, "RTX 3090": 24_576, "RTX 3080": 10_240,
    "RTX 3070": 8_192, "RTX 3060": 12_288, "RTX 2080 Ti": 11_264, "MI355X": 294_896,
    "MI325X": 262_128, "MI300X": 196_592, "MI300A": 131_072, "MI250X": 65_520, "MI210": 65_520,
}  # fmt: skip
"""As the drivers report it; of a card with several sizes the usual one, without its size."""
USUAL = ("H200", "H100", "L40S", "RTX 4090")
"""Named as examples where there is no GPU to compare with."""
_INSTINCT = re.compile(r"MI\d")
_GROUP = re.compile(r"(?:(\d{1,6})\s*[x×*]\s*)?(.+)", re.IGNORECASE)


def _plain(word: str) -> str:
    """Normalises a name: `NVIDIA H100 80GB` and `h100-80gb` become `h10080gb`."""
    return re.sub(r"[^a-z0-9]", "", word.lower()).removeprefix("nvidia").removeprefix("geforce")


_BY_WORD = {_plain(name): name for name in GPU_MIB} | {
    _plain(name.removeprefix("RTX ")): name for name in GPU_MIB
}


def capacities_on(text: str) -> tuple[GpuCapacity, ...]:
    """Parses `4xH100`, `2xA100-40GB,1xL4` or `8x80GiB` as empty GPUs."""
    if len(text) > MOST_CHARACTERS:
        raise Invalid("--on-gpus is too long", hint="--on-gpus 4xH100")
    capacities: list[GpuCapacity] = []
    for part in text.split(","):
        match = _GROUP.fullmatch(part.strip())
        count = int(match[1] or 1) if match else 0
        if match is None or not 1 <= count <= MOST_GPUS - len(capacities):
            raise Invalid(f"--on-gpus: {part.strip()[:40]!r} is not a number of GPUs",
                          hint=f"--on-gpus 4xH100, at most {MOST_GPUS}")  # fmt: skip
        name, size = _named(match[2].strip())
        first = len(capacities)
        capacities += (capacity_named(name, size, number) for number in range(first, first + count))
    return tuple(capacities)


def capacity_named(name: str, size: int, number: int) -> GpuCapacity:
    vendor = "instinct" if _INSTINCT.match(name) else "nvidia"  # only that they differ counts
    usable = max(0, size - RESERVED_BYTES)
    return GpuCapacity(f"{name}-{number}", str(number), name, size, usable, size - usable, vendor)


def _named(word: str) -> tuple[str, int]:
    """A GPU's model and memory; accepts a memory size alone, and a model with another size."""
    known = _BY_WORD.get(_plain(word))
    if known is not None:
        return known, GPU_MIB[known] * MIB
    try:
        return f"{word} GPU", parse_bytes(word)
    except ValueError:
        pass
    model, _, size = word.replace(" ", "-").rpartition("-")
    known = _BY_WORD.get(_plain(model))
    if known is not None and re.fullmatch(r"\d+\s*gi?b?", size, re.IGNORECASE):
        return f"{known} {size}", parse_bytes(f"{re.sub(r'[^0-9]', '', size)}GiB")
    raise Invalid(
        f"--on-gpus: the GPU {word[:40]!r} is not known",
        hint=f"{', '.join(USUAL)}, …, or its memory: --on-gpus 4x80GiB",
    )
