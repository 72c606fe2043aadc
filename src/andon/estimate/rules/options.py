"""The options of an estimate: one name each, with the names that engines use as aliases."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import FieldInfo, fields, replace

from andon.errors import Invalid
from andon.model.codec import shown

MOST_PARALLEL = 16_384
MOST_TOKENS = 1 << 30
MOST_REQUESTS = 1 << 20
_SHOWN = 40
_SUFFIX = re.compile(r"(\d+(?:\.\d+)?)([kmg])(i?)", re.IGNORECASE)
_POWERS = {"k": 1, "m": 2, "g": 3}


class ServingEngine(StrEnum):
    """What runs the model."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TRTLLM = "trtllm"
    TRANSFORMERS = "transformers"
    TRAINING = "training"

    @property
    def is_server(self) -> bool:
        """Whether it takes a share of the memory when it starts, also if it needs less."""
        return self in (ServingEngine.VLLM, ServingEngine.SGLANG, ServingEngine.TRTLLM)


class TrainingPrecision(StrEnum):
    """The type in which a model is trained."""

    FP32 = "fp32"
    MIXED = "mixed"  # weights in float32, computation in bfloat16 (autocast)
    BF16 = "bf16"


class TrainingOptimizer(StrEnum):
    """What updates the weights."""

    ADAMW = "adamw"
    ADAMW8BIT = "adamw8bit"
    SGD = "sgd"
    ADAFACTOR = "adafactor"


class OptionAbout(NamedTuple):
    """The description of an option beyond its name, type and default."""

    help: str
    metavar: str
    aliases: tuple[str, ...] = ()
    most: int = MOST_PARALLEL


class EstimateOption(NamedTuple):
    """One row of the table."""

    name: str
    kind: Any  # int, float, bool, str or an enum
    default: Any
    help: str
    metavar: str
    aliases: tuple[str, ...]
    most: int

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")


class FirstOption(Struct, frozen=True):
    """The option that may be given without its name."""

    engine: Annotated[
        ServingEngine,
        OptionAbout("vllm, sglang, trtllm, transformers or training.", "ENGINE", ("backend",)),
    ] = ServingEngine.VLLM


class EstimateOptions(FirstOption, frozen=True, kw_only=True):
    """How the model will run; its fields are the rows of the table."""

    tp: Annotated[
        int,
        OptionAbout(
            "Tensor-parallel GPUs.", "N", ("tp-size", "tensor-parallel-size", "tensor-parallel")
        ),
    ] = 1
    pp: Annotated[
        int,
        OptionAbout(
            "Pipeline-parallel stages.",
            "N",
            ("pp-size", "pipeline-parallel-size", "pipeline-parallel"),
        ),
    ] = 1
    dp: Annotated[
        int,
        OptionAbout(
            "Data-parallel replicas.", "N", ("dp-size", "data-parallel-size", "data-parallel")
        ),
    ] = 1
    cp: Annotated[
        int,
        OptionAbout(
            "Context-parallel GPUs.",
            "N",
            (
                "cp-size", "context-parallel-size", "context-parallel",
                "prefill-context-parallel-size", "pcp", "pcp-size",
            ),
        ),
    ] = 1  # fmt: skip
    dcp: Annotated[
        int,
        OptionAbout(
            "Decode-context-parallel GPUs (of the tensor-parallel ones).",
            "N",
            ("dcp-size", "decode-context-parallel-size", "decode-context-parallel"),
        ),
    ] = 1
    expert_parallel: Annotated[
        bool,
        OptionAbout("Divide experts among all GPUs.", "", ("enable-expert-parallel",)),
    ] = False
    dp_attention: Annotated[
        bool, OptionAbout("SGLang: data-parallel attention.", "", ("enable-dp-attention",))
    ] = False
    context: Annotated[
        int | None,
        OptionAbout(
            "Length of the longest request, in tokens.",
            "TOKENS",
            ("max-model-len", "context-length", "max-seq-len", "max-context-len"),
            MOST_TOKENS,
        ),
    ] = None
    requests: Annotated[
        int | None,
        OptionAbout(
            "Concurrent requests of that length.",
            "N",
            ("max-num-seqs", "max-running-requests", "max-batch-size"),
            MOST_REQUESTS,
        ),
    ] = None
    batched_tokens: Annotated[
        int | None,
        OptionAbout(
            "Tokens computed in one step.",
            "TOKENS",
            ("max-num-batched-tokens", "chunked-prefill-size", "max-num-tokens"),
            MOST_TOKENS,
        ),
    ] = None
    utilization: Annotated[
        float | None,
        OptionAbout(
            "Share of memory the server takes, 0 to 1.",
            "SHARE",
            (
                "gpu-memory-utilization", "mem-fraction-static", "free-gpu-memory-fraction",
                "kv-cache-free-gpu-memory-fraction",
            ),
        ),
    ] = None  # fmt: skip
    dtype: Annotated[
        str | None, OptionAbout("Type of the weights: auto, bfloat16, …", "TYPE", ("torch-dtype",))
    ] = None
    quantization: Annotated[
        str | None,
        OptionAbout("Quantization of the weights: awq, gptq, fp8, …", "NAME", ("quantize",)),
    ] = None
    kv_dtype: Annotated[
        str | None, OptionAbout("Type of the KV cache: auto, fp8.", "TYPE", ("kv-cache-dtype",))
    ] = None
    eager: Annotated[
        bool, OptionAbout("No CUDA graphs.", "", ("enforce-eager", "disable-cuda-graph"))
    ] = False
    precision: Annotated[
        TrainingPrecision, OptionAbout("Training: fp32, mixed or bf16.", "TYPE")
    ] = TrainingPrecision.MIXED
    optimizer: Annotated[
        TrainingOptimizer,
        OptionAbout("Training: adamw, adamw8bit, sgd or adafactor.", "NAME", ("optim",)),
    ] = TrainingOptimizer.ADAMW
    zero: Annotated[
        int, OptionAbout("Training: ZeRO stage, 0 to 3.", "STAGE", ("zero-stage",), 3)
    ] = 0
    lora: Annotated[
        int | None,
        OptionAbout(
            "Training: train only LoRA adapters of this rank.", "RANK", ("lora-rank", "lora-r")
        ),
    ] = None
    gradient_checkpointing: Annotated[
        bool,
        OptionAbout(
            "Training: recompute activations instead of keeping them.",
            "",
            ("activation-checkpointing", "checkpointing"),
        ),
    ] = False
    sequence: Annotated[
        int | None,
        OptionAbout(
            "Training: tokens per sequence.",
            "TOKENS",
            ("seq-len", "seq-length", "sequence-length", "max-seq-length"),
            MOST_TOKENS,
        ),
    ] = None
    batch: Annotated[
        int,
        OptionAbout(
            "Training: sequences per GPU and step.",
            "N",
            ("batch-size", "micro-batch-size", "per-device-train-batch-size"),
            MOST_REQUESTS,
        ),
    ] = 1


PARALLEL = ("tp", "pp", "dp", "cp", "dcp")
MODEL_OPTIONS = frozenset(
    {"model", "model-path", "model-id", "model-name", "id-or-path", "model-tag"}
)
"""The option with the model, in every spelling, as `spelled` writes it."""


def with_size(options: EstimateOptions, name: str, size: int) -> EstimateOptions:
    """Returns the options with another size; `name` is one of `PARALLEL`."""
    changed: dict[str, Any] = {name: size}
    return replace(options, **changed)


@cache
def estimate_options() -> tuple[EstimateOption, ...]:
    """Returns the table, in the order in which options are listed."""
    return tuple(_row(one) for one in fields(EstimateOptions))


def _row(one: FieldInfo) -> EstimateOption:
    written: Any = one.type
    about: OptionAbout = written.__metadata__[0]
    kind = written.__origin__
    kinds = [part for part in getattr(kind, "__args__", (kind,)) if part is not type(None)]
    return EstimateOption(
        one.name, kinds[0], one.default, about.help, about.metavar, about.aliases, about.most
    )


@cache
def _spellings() -> Mapping[str, EstimateOption]:
    return {
        word: row
        for row in estimate_options()
        for word in (row.name.replace("_", "-"), *row.aliases)
    }


def spelled(word: str) -> str:
    """Returns the table's spelling of `--tensor_parallel_size`, `-tp` or `TP`."""
    return word.lstrip("-").lower().replace("_", "-")


def option_named(word: str) -> EstimateOption | None:
    """Returns the row of an option, in any spelling."""
    return _spellings().get(spelled(word))


def is_left_open(row: EstimateOption, value: object) -> bool:
    """Whether a number is left to the engine: `auto`, or -1 as some write it."""
    if row.kind not in (int, float) or row.default is not None:
        return False
    word = value.strip().lower() if isinstance(value, str) else value
    return word in ("auto", "-1", -1)


def options_of(given: Mapping[str, Any]) -> EstimateOptions:
    """Returns options by any of their names, each a value or a list; unknown names are left out.

    Of a list the largest counts.
    """
    return EstimateOptions(**read_options(given))


def read_options(given: Mapping[str, Any], mistakes: list[str] | None = None) -> dict[str, Any]:
    """Reads options by the names of the table, without defaults; a value that cannot be read
    raises Invalid, or is left out and noted in `mistakes`."""
    found: dict[str, Any] = {}
    for word, value in given.items():
        row = option_named(str(word))
        if row is None or value is None or is_left_open(row, value):
            continue
        try:
            found[row.name] = option_value(row, value)
        except Invalid as wrong:
            if mistakes is None:
                raise
            mistakes.append(f"{wrong.reason}; it is left out")
    return found


def option_value(row: EstimateOption, value: object) -> Any:
    """Parses a value of this option; raises Invalid if it is none."""
    values = list(_each(value))
    if not values:
        raise Invalid(f"{row.option} has no value")
    read = [_read(row, one) for one in values]
    return max(read) if row.kind in (int, float) else read[-1]


def _each(value: object) -> Iterable[object]:
    if isinstance(value, str):
        parts = value.strip().removeprefix("[").removesuffix("]").split(",")
        return [part.strip() for part in parts if part.strip()]
    if isinstance(value, Sequence):
        return value
    return (value,)


def _read(row: EstimateOption, value: object) -> Any:
    if row.kind is bool:
        return _flag(row, value)
    if row.kind is int:
        low = 0 if row.name == "zero" else 1
        return _whole(row, value, low)
    if row.kind is float:
        return _fraction(row, value)
    if not isinstance(value, str):
        raise Invalid(f"{row.option} is {shown(value)}, not a word")
    if issubclass(row.kind, StrEnum):
        return _choice(row, value)
    return value[:_SHOWN]


def _whole(row: EstimateOption, value: object, low: int) -> int:
    """Parses a count; `32k` and `8Ki` too, as vLLM allows."""
    number: object = value
    if isinstance(value, str):
        match = _SUFFIX.fullmatch(value.strip())
        if match:
            base = 1024 if match[3] or match[2].isupper() else 1000
            number = float(match[1]) * base ** _POWERS[match[2].lower()]
        elif value.strip().isdecimal() and len(value) < _SHOWN:
            number = int(value)
    if isinstance(number, float) and math.isfinite(number) and number.is_integer():
        number = int(number)
    if type(number) is not int or not low <= number <= row.most:
        raise Invalid(
            f"{row.option} is {shown(value)}, not a whole number from {low} to {row.most}"
        )
    return number


def _fraction(row: EstimateOption, value: object) -> float:
    try:
        found = float(value) if isinstance(value, (str, int, float)) else math.nan
    except (ValueError, OverflowError):
        found = math.nan
    if not 0 < found <= 1:
        raise Invalid(f"{row.option} is {shown(value)}, not a share between 0 and 1")
    return found


def _flag(row: EstimateOption, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("true", "1", "yes", "on"):
        return True
    if str(value).lower() in ("false", "0", "no", "off"):
        return False
    raise Invalid(f"{row.option} is {shown(value)}, neither true nor false")


def _choice(row: EstimateOption, value: str) -> Any:
    word = value.lower().replace("_", "").replace("-", "")
    for one in row.kind:
        if word == str(one) or (word, str(one)) in _ALSO:
            return one
    raise Invalid(f"{row.option} {shown(value)} is not known", hint=", ".join(row.kind))


_ALSO = {
    ("tensorrtllm", "trtllm"), ("trt", "trtllm"), ("tensorrt", "trtllm"), ("hf", "transformers"),
    ("train", "training"), ("float32", "fp32"), ("bfloat16", "bf16"), ("amp", "mixed"),
    ("adam", "adamw"), ("adamwtorch", "adamw"), ("adamwtorchfused", "adamw"),
    ("adamwbnb8bit", "adamw8bit"), ("adam8bit", "adamw8bit"), ("pagedadamw8bit", "adamw8bit"),
}  # fmt: skip
