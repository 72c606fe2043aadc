"""Job files with a model and its parameters: one job per combination of them."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.api.compat.estimates import estimate_gpu_requirements
from andon.cli.show.jobs import render_dry
from andon.errors import Invalid
from andon.estimate.rules.options import ServingEngine
from andon.jobs.file import specs_of
from andon.jobs.rules.model_file import ENGINES, is_model_file, model_jobs_in
from andon.jobs.rules.states import FIRST
from andon.jobs.rules.views import view_of
from andon.model.job.facts import JobFacts
from andon.model.job.spec import spec_from_json, spec_to_json
from andon.units import MIB
from tests.support.rows import rows

WITH_MODEL = {
    "task_name": "sweep",
    "model": {"id_or_path": "meta/llama-3-70b"},
    "parameters": {
        "tp-size": [1, 4],
        "mem-fraction-static": [0.8, 0.9],
        "trust": True,
        "no": False,
    },
}


def test_there_is_one_job_per_combination() -> None:
    assert is_model_file(WITH_MODEL)
    assert not is_model_file({"model": "H200", "command": "x"})
    jobs = model_jobs_in(WITH_MODEL, "tasks.json", {})
    assert [job.request.least for job in jobs] == [1, 1, 4, 4]
    assert {job.request.memory_bytes for job in jobs} == {20_000 * 1024 * 1024}
    assert jobs[3].command == (
        "python", "-m", "sglang.launch_server", "--model-path", "meta/llama-3-70b",
        "--tp-size", "4", "--mem-fraction-static", "0.9", "--trust",
    )  # fmt: skip
    assert {job.spec.name for job in jobs} == {"sweep"}


@rows(
    ("engine", "given", "words"),
    [
        ("sglang", {"tp-size": 2, "tensor_parallel_size": 2}, ["--tp-size", "2"] * 2),
        ("sglang", {"dp": 2, "pp-size": 3}, ["--dp-size", "2", "--pp-size", "3"]),
        ("sglang", {"max-model-len": 9, "enforce-eager": True},
         ["--context-length", "9", "--disable-cuda-graph"]),
        ("sglang", {"mem-fraction-static": 0.8}, ["--mem-fraction-static", "0.8"]),
        ("vllm", {"tp-size": 2}, ["--tensor-parallel-size", "2"]),
        ("vllm", {"tp": 2, "pp_size": 3, "dp-size": 4, "dcp": 5},
         ["--tensor-parallel-size", "2", "--pipeline-parallel-size", "3",
          "--data-parallel-size", "4", "--decode-context-parallel-size", "5"]),
        ("vllm", {"context-length": 9, "max-running-requests": 8},
         ["--max-model-len", "9", "--max-num-seqs", "8"]),
        ("vllm", {"gpu_memory_utilization": 0.8, "max-num-batched-tokens": 7},
         ["--gpu-memory-utilization", "0.8", "--max-num-batched-tokens", "7"]),
        ("vllm", {"kv-cache-dtype": "fp8", "quantize": "awq", "made-up": 1},
         ["--kv-cache-dtype", "fp8", "--quantization", "awq", "--made-up", "1"]),
        ("trtllm", {"tp-size": 2, "pipeline-parallel-size": 3},
         ["--tp_size", "2", "--pp_size", "3"]),
        ("trtllm", {"max-model-len": 9, "max-num-seqs": 8},
         ["--max_seq_len", "9", "--max_batch_size", "8"]),
    ],
)  # fmt: skip
def test_each_engine_gets_its_own_spelling(
    engine: str, given: dict[str, object], words: list[str]
) -> None:
    document = {"model": {"id_or_path": "m"}, "base_runtime": engine, "parameters": given}
    (job,) = model_jobs_in(document, "tasks.json", {})
    start = ENGINES[ServingEngine(engine)].start
    assert job.command == (*start, "m", *words)


@rows(
    ("engine", "name", "says"),
    [
        ("vllm", "mem-fraction-static",
         "vLLM has --gpu-memory-utilization, which means something else"),
        ("sglang", "max-num-batched-tokens", "SGLang has --chunked-prefill-size, which means"),
        ("sglang", "decode-context-parallel-size", "SGLang has no such option"),
        ("trtllm", "dp-size", "TensorRT-LLM has no such option"),
    ],
)  # fmt: skip
def test_what_an_engine_does_not_have_is_a_mistake(engine: str, name: str, says: str) -> None:
    document = {"model": {"id_or_path": "m"}, "base_runtime": engine, "parameters": {name: 1}}
    with pytest.raises(Invalid, match=f"parameters.{name}: {says}"):
        model_jobs_in(document, "tasks.json", {})


def test_a_command_of_ones_own_gets_the_parameters_as_they_are() -> None:
    document = {"model": {"id_or_path": "m"}, "command": ["serve"], "parameters": {"tp_size": 2}}
    (job,) = model_jobs_in(document, "tasks.json", {})
    assert job.command == ("serve", "--model", "m", "--tp_size", "2")


@pytest.mark.process  # git is asked for the commit
def test_jobs_of_a_parameter_list_carry_their_parameters_and_a_group(tmp_path: Path) -> None:
    jobs = model_jobs_in(WITH_MODEL, "tasks.json", {})
    assert {job.spec.group for job in jobs} == {"sweep"}
    assert jobs[1].spec.params == {
        "tp-size": 1, "mem-fraction-static": 0.9, "trust": True, "no": False,
    }  # fmt: skip
    specs = [specs_of(job, tmp_path) for job in jobs]
    (first,) = specs[0]
    wired = spec_from_json(json.loads(json.dumps(spec_to_json(replace(first, number=1)))))
    assert (wired.group, wired.params) == (first.group, first.params)
    view = view_of(JobFacts(first), FIRST)
    assert (view.group, view.params["tp-size"], view.params["no"]) == ("sweep", "1", "False")
    lines = [line.plain for line in render_dry(specs, 100)]
    assert lines[0] == "would queue 4 jobs"
    assert lines[1].split() == [
        "NAME",
        "GPUS",
        "MEMORY",
        "tp-size",
        "mem-fraction-static",
        "COMMAND",
    ]
    assert lines[4].split()[:6] == ["sweep", "4", "19.5", "GiB", "4", "0.8"]


def test_keys_of_a_plain_file_are_taken_too() -> None:
    sizes = {"parameters": {"tp-size": [1, 4]}, "for": "1h", "gpus": 2}
    served = {**WITH_MODEL, "base_runtime": "vllm", **sizes}
    jobs = model_jobs_in(served, "tasks.json", {})
    assert jobs[0].command[:3] == ("vllm", "serve", "meta/llama-3-70b")
    assert {(job.spec.for_seconds, job.request.least) for job in jobs} == {(3600.0, 2)}
    docker = {**WITH_MODEL, "deployment_mode": "docker", "runtime_image_tag": "v1"}
    assert {job.image for job in model_jobs_in(docker, "tasks.json", {})} == {"sglang:v1"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model": {}}, "there is no model.id_or_path"),
        ({"parameters": 3}, "parameters: not a table"),
        ({"parameters": {"a": []}}, "parameters.a: neither a value nor a list"),
        ({"parameters": {str(n): list(range(10)) for n in range(5)}}, "100,000 combinations"),
        ({"deployment_mode": "docker"}, "docker needs an image"),
        ({"deployment_mode": "k3s"}, "neither docker nor local"),
        ({"deployment_mode": "ome"}, "andon submit --on k8s --kind inferenceservice"),
        ({"base_runtime": "x"}, "not one of sglang, vllm, trtllm"),
        ({"gpu": 3}, "there is no such key"),
    ],
)
def test_mistakes_are_named(change: dict[str, object], says: str) -> None:
    with pytest.raises(Invalid) as wrong:
        model_jobs_in({**WITH_MODEL, **change}, "tasks.json", {})
    assert says in "\n".join((wrong.value.reason, *wrong.value.mistakes))


def test_the_need_is_that_of_the_kept_function() -> None:
    """Sizes that the earlier systems did not know are estimated."""
    models = ("llama-3-70b", "llama-2-13b-chat", "Qwen2.5-7B-Instruct", "gpt2", "mistral-22b")
    for model in models:
        document = {"model": {"id_or_path": model}, "parameters": {"tp_size": [1, 2], "dp": 3}}
        found = [one.request for one in model_jobs_in(document, "tasks.json", {})]
        for request, size in zip(found, (1, 2), strict=True):
            asked = {"model": {"name": model}, "parameters": {"tp-size": size, "dp-size": 3}}
            gpus, memory = estimate_gpu_requirements(asked)
            assert (request.least, request.memory_bytes) == (gpus, memory * MIB), (model, size)
    assert found[0].memory_bytes is not None
    assert found[0].memory_bytes > 40_000 * MIB  # 22 billion parameters in 16 bits
