"""Names of models, spellings of options, and whole command lines."""

import shlex
from typing import Any

import pytest

from andon.errors import Invalid
from andon.estimate.rules.command_line import (
    file_options,
    is_container,
    own_command,
    understood,
    understood_text,
)
from andon.estimate.rules.names import name_facts, parameters_in_name
from andon.estimate.rules.options import (
    EstimateOptions,
    ServingEngine,
    estimate_options,
    option_named,
    options_of,
)
from andon.estimate.rules.quantisation import format_in_name

NAMES = {
    "Qwen/Qwen2.5-0.5B-Instruct": 0.5, "Qwen3-0.6B": 0.6, "my-model-0.7B": 0.7,
    "TinyLlama-1.1B-Chat-v1.0": 1.1, "Llama-3.2-1B": 1, "Qwen2-1.5B": 1.5, "Qwen3-1.7B": 1.7,
    "gemma-2-2b-it": 2, "Llama-3.2-3B": 3, "microsoft/phi-2": 2.78, "opt-6.7b": 6.7,
    "llama-7b": 7, "Qwen2.5-7B-Instruct-1M": 7, "mistral-7b-instruct-v0.2": 7,
    "meta-llama/Meta-Llama-3-8B": 8, "gemma-2-9b": 9, "Llama-2-13b-chat-hf": 13,
    "phi-4": 14.7, "custom-17B": 17, "gpt-oss-20b": 20.9, "gemma-3-27b-it": 27,
    "Qwen3-30B-A3B": 30, "DeepSeek-R1-Distill-Qwen-32B": 32, "llama-65b": 65,
    "llama-3-70b": 70, "Llama-3.1-8B-Instruct-AWQ-4bit": 8, "Mixtral-8x7B-v0.1": 46.7,
    "mixtral-8x22b": 140.6, "Qwen3-235B-A22B": 235, "meta-llama/Llama-3.1-405B": 405,
    "deepseek-ai/DeepSeek-V3": 671, "deepseek-r1:671b": 671, "SmolLM2-135M": 0.135,
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": 108.6, "falcon-180B": 180, "yi-34B-200K": 34,
}  # fmt: skip
"""Billions."""


def test_a_name_tells_its_size() -> None:
    found = {name: (parameters_in_name(name) or 0) / 1e9 for name in NAMES}
    assert {name: found[name] for name, size in NAMES.items() if found[name] != size} == {}


def test_a_name_without_a_size_tells_none() -> None:
    for name in (
        "nonsense",
        "",
        "bge-m3",
        "v0.1",
        "4bit",
        "200K",
        "model-b",
        "7billion",
        "x" * 999,
    ):
        assert parameters_in_name(name) is None, name
    with pytest.raises(Invalid, match="does not contain a size"):
        name_facts("bert-base")
    with pytest.raises(Invalid, match="not the name of a model"):
        name_facts("\x1b[31m8b")


def test_a_name_tells_how_weights_are_packed() -> None:
    table = {
        "Qwen2.5-7B-AWQ": "AWQ 4-bit", "x-GPTQ-Int4": "GPTQ 4-bit", "Llama-70B-FP8": "FP8",
        "m-8b-Q4_K_M.gguf": "GGUF Q4_K_M", "gpt-oss-120b": "MXFP4", "x-8b-bnb-4bit":
        "bitsandbytes 4-bit", "DeepSeek-R1": "FP8", "x-w8a8": "INT8",
    }  # fmt: skip
    found = {name: getattr(format_in_name(name), "label", None) for name in table}
    assert found == table
    assert format_in_name("DeepSeek-R1-Distill-Llama-8B") is None
    assert format_in_name("Llama-3-8B") is None


def _values(kind: Any) -> tuple[object, object]:
    """A value as typed, and as read."""
    if kind is int:
        return "2", 2
    if kind is float:
        return "0.5", 0.5
    if kind is str:
        return "fp8", "fp8"
    return next(iter(kind)).value, next(iter(kind))


def test_every_spelling_of_every_option_means_the_same() -> None:
    for row in estimate_options():
        for word in (row.name, *row.aliases):
            for dashes in ("", "-", "--"):
                for spelled in (word, word.replace("-", "_"), word.upper()):
                    assert option_named(dashes + spelled) is row, spelled
    assert option_named("--port") is None


def test_every_option_takes_a_value_and_a_list() -> None:
    for row in estimate_options():
        if row.kind is bool:
            assert getattr(options_of({row.name: True}), row.name) is True
            assert getattr(options_of({row.name: "false"}), row.name) is False
            continue
        typed, read = _values(row.kind)
        for given in (typed, [typed], [typed, typed], f"{typed},{typed}"):
            assert getattr(options_of({row.name: given}), row.name) == read, row.name


def test_of_a_list_the_largest_counts() -> None:
    found = options_of({"tp-size": [1, 4, 2], "pipeline_parallel_size": "1,2", "dp": 3})
    assert (found.tp, found.pp, found.dp) == (4, 2, 3)
    assert options_of({"max-model-len": "32k"}).context == 32000
    assert options_of({"max-model-len": "32K"}).context == 32768


WRONG: list[dict[str, object]] = [
    {"tp": 0}, {"tp": -1}, {"tp": "two"}, {"tp": 1.5}, {"tp": True}, {"tp": 10**9}, {"tp": []},
    {"tp": 10**5000}, {"context": 10**5000}, {"context": -2},
    {"tp": {}}, {"utilization": 0}, {"utilization": "nan"}, {"utilization": 2}, {"engine": "zip"},
    {"zero": 4}, {"precision": 3}, {"eager": "maybe"}, {"context": "1e400"},
    {"batch": None, "tp": ""},
]  # fmt: skip


def test_a_value_that_is_none_is_refused_with_the_option() -> None:
    for given in WRONG:
        with pytest.raises(Invalid) as found:
            options_of(given)
        assert found.value.reason.startswith("--"), given


COMMANDS: list[tuple[str, str, dict[str, object]]] = [
    ("vllm serve M --tensor-parallel-size 2 --max-model-len 32768", "vllm",
     {"tp": 2, "context": 32768}),
    ("vllm serve M -tp 2 -pp=2 -ep --port 8000", "vllm",
     {"tp": 2, "pp": 2, "expert_parallel": True}),
    ("CUDA_VISIBLE_DEVICES=0 X=y /opt/bin/vllm serve --model M --dtype auto", "vllm", {}),
    ("env A=b vllm serve M --gpu_memory_utilization=0.8 --enforce-eager --trust-remote-code",
     "vllm", {"utilization": 0.8, "eager": True}),
    ("python3 -m vllm.entrypoints.openai.api_server --model M -q awq --kv-cache-dtype fp8", "vllm",
     {"quantization": "awq", "kv_dtype": "fp8"}),
    ("/usr/bin/python3.12 -m sglang.launch_server --model-path M --tp 8 --dp 8 "
     "--enable-dp-attention",
     "sglang", {"tp": 8, "dp": 8, "dp_attention": True}),
    ("trtllm-serve M --tp_size 4 --max_batch_size 16 --kv_cache_free_gpu_memory_fraction 0.85",
     "trtllm", {"tp": 4, "requests": 16, "utilization": 0.85}),
    ("trtllm-serve serve M --max_seq_len 4096", "trtllm", {"context": 4096}),
    ("A=b nohup uv run vllm serve M --max-model-len -1 --tp [1,2]", "vllm", {"tp": 2}),
    ("docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.9 --model M -tp 2", "vllm", {"tp": 2}),
    ("podman run --ipc=host lmsysorg/sglang python3 -m sglang.launch_server --model-path M",
     "sglang", {}),
]  # fmt: skip


def test_command_lines_of_servers_are_understood() -> None:
    wrong = []
    for line, engine, given in COMMANDS:
        found = understood(line.split())
        if (found.engine, found.model, dict(found.given)) != (engine, "M", given):
            wrong.append((line, found))
    assert wrong == []


def test_the_command_to_type_is_the_servers_own() -> None:
    typed = ["andon", "run", "--gpus", "2", "--", "vllm", "serve", "M"]
    assert own_command(typed) == ("vllm", "serve", "M")
    assert own_command(["vllm", "serve"]) == ("vllm", "serve")
    assert is_container(["/usr/bin/docker", "run", "x"])
    assert not is_container(["docker", "ps"])


def test_what_was_understood_is_said_in_one_line() -> None:
    found = understood(
        shlex.split("vllm serve M -tp 2 --port 8000 --enforce-eager --config c.yaml")
    )
    text = understood_text(found, found.options({}, {}))
    said = "understood: vllm, model M, tp 2, eager, and what c.yaml says; not used: --port"
    assert text == said


def test_what_was_typed_wins_over_the_file_and_both_over_the_defaults() -> None:
    given, model = file_options(
        "model: M  # the model\ntensor-parallel-size: 4\nmax_model_len: 4096\nport: 1\n"
        "kv_cache_config:\n  free_gpu_memory_fraction: 0.7\nbroken\n:\n"
    )
    assert (given, model) == ({"tp": 4, "context": 4096, "utilization": 0.7}, "M")
    command = understood(["vllm", "serve", "--config", "x", "-tp", "2"])
    found = command.options({"requests": 3}, given)
    assert found == EstimateOptions(
        ServingEngine.VLLM, tp=2, context=4096, utilization=0.7, requests=3
    )


def test_any_other_command_is_one_sentence() -> None:
    for line in (
        "python train.py",
        "ls",
        "",
        "A=b",
        "python -m",
        "vllm bench",
        "python -m torch.run",
        "docker run ubuntu ls",
    ):
        with pytest.raises(Invalid, match="does not start a server that andon knows"):
            understood(line.split())
    with pytest.raises(Invalid, match="has no value"):
        understood(["vllm", "serve", "M", "--tp"])
