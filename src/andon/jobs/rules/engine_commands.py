"""How each engine that serves a model is started, and what it calls the options of a job file."""

from collections.abc import Mapping

from msgspec import Struct

from andon.estimate.rules.engines import TITLES
from andon.estimate.rules.options import ServingEngine, option_named, spelled

OWN_MEANING = frozenset({"utilization", "batched_tokens"})
"""Options that engines mean differently: the name of another engine's is not translated."""


class EngineCommand(Struct, frozen=True):
    """The words before the model, and the engine's own name of each option that it has."""

    start: tuple[str, ...]
    options: Mapping[str, str]


ENGINES: Mapping[ServingEngine, EngineCommand] = {
    ServingEngine.SGLANG: EngineCommand(
        ("python", "-m", "sglang.launch_server", "--model-path"),
        {
            "tp": "--tp-size",
            "pp": "--pp-size",
            "dp": "--dp-size",
            "dp_attention": "--enable-dp-attention",
            "context": "--context-length",
            "requests": "--max-running-requests",
            "batched_tokens": "--chunked-prefill-size",
            "utilization": "--mem-fraction-static",
            "dtype": "--dtype",
            "quantization": "--quantization",
            "kv_dtype": "--kv-cache-dtype",
            "eager": "--disable-cuda-graph",
        },
    ),
    ServingEngine.VLLM: EngineCommand(
        ("vllm", "serve"),
        {
            "tp": "--tensor-parallel-size",
            "pp": "--pipeline-parallel-size",
            "dp": "--data-parallel-size",
            "cp": "--prefill-context-parallel-size",
            "dcp": "--decode-context-parallel-size",
            "expert_parallel": "--enable-expert-parallel",
            "context": "--max-model-len",
            "requests": "--max-num-seqs",
            "batched_tokens": "--max-num-batched-tokens",
            "utilization": "--gpu-memory-utilization",
            "dtype": "--dtype",
            "quantization": "--quantization",
            "kv_dtype": "--kv-cache-dtype",
            "eager": "--enforce-eager",
        },
    ),
    ServingEngine.TRTLLM: EngineCommand(
        ("trtllm-serve",),
        {
            "tp": "--tp_size",
            "pp": "--pp_size",
            "cp": "--cp_size",
            "context": "--max_seq_len",
            "requests": "--max_batch_size",
            "batched_tokens": "--max_num_tokens",
            "utilization": "--kv_cache_free_gpu_memory_fraction",
            "kv_dtype": "--kv_cache_dtype",
        },
    ),
}
_KNOWN = frozenset(name for engine in ENGINES.values() for name in engine.options)


def option_name(engine: ServingEngine, word: str) -> str:
    """What the engine calls an option that may have the name of another; one that is not in the
    table stays as it is. ValueError where the engine has none with that meaning."""
    row = option_named(word)
    if row is None or row.name not in _KNOWN:
        return f"--{word}"
    own = ENGINES[engine].options.get(row.name)
    if own is None:
        raise ValueError(f"{TITLES[engine]} has no such option")
    if row.name in OWN_MEANING and spelled(word) not in (spelled(own), spelled(row.name)):
        raise ValueError(f"{TITLES[engine]} has {own}, which means something else")
    return own
