"""The kept function: how many GPUs a task needs, and how much memory on each."""

import logging
from typing import Any

import pytest

import andon
from andon.estimate.rules.options import PARALLEL, estimate_options
from andon.estimate.rules.task_need import task_need

EXAMPLE = {"model": {"id_or_path": "llama-3-70b"}, "parameters": {"tp-size": [1, 2, 4]}}


def task(model: object, **parameters: Any) -> dict[str, Any]:
    return {"model": {"id_or_path": model}, "parameters": parameters}


def test_the_known_example(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "andon.estimates"):
        assert andon.estimate_gpu_requirements(EXAMPLE) == (4, 20000)
        assert andon.estimate_gpu_requirements(task("llama-3-70b")) == (1, 20000)
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.INFO] == [
        "Estimated requirements for llama-3-70b: 4 GPUs with 20000 MB each",
        "Estimated requirements for llama-3-70b: 1 GPU with 20000 MB",
    ]


def test_the_table_holds_for_its_sizes_and_the_estimate_for_others() -> None:
    table = {
        "llama-65b": 20000, "meta-llama/Llama-3-70B": 20000, "llama-7b": 12000,
        "Llama-2-13b-hf": 12000, "bert": 8000, "": 8000, "qwen-0.7b": 8000,
    }  # fmt: skip
    found = {name: andon.estimate_gpu_requirements(task(name))[1] for name in table}
    assert found == table
    real = {n: andon.estimate_gpu_requirements(task(n))[1] for n in ("x-17b", "x-27b", "x-8b")}
    assert 16_000 < real["x-8b"] < 20_000 < 32_000 < real["x-17b"] < real["x-27b"]
    split = andon.estimate_gpu_requirements(task("x-27b", tp=2))[1]
    assert real["x-27b"] / 2 < split < real["x-27b"]


def test_every_spelling_of_a_size_as_a_value_and_as_a_list() -> None:
    rows = {row.name: row for row in estimate_options() if row.name in PARALLEL}
    assert set(rows) == set(PARALLEL)
    for row in rows.values():
        for word in (row.name, *row.aliases):
            for spelled in (word, word.replace("-", "_")):
                for value in (3, "3", [1, 3], [3], "1,3"):
                    found = andon.estimate_gpu_requirements(task("x-7b", **{spelled: value}))
                    assert found[0] == 3, (spelled, value)


def test_the_world_is_tensor_by_pipeline_by_the_largest_of_the_others() -> None:
    found = andon.estimate_gpu_requirements(task("x-7b", tp=2, pp=3, dp=4, cp=2, dcp=2))
    assert found == (24, 12000)


@pytest.mark.parametrize(
    "given",
    [{}, {"model": None}, {"model": "llama-7b"}, {"model": [], "parameters": []},
     task("llama-7b", tp="many"), task("llama-7b", tp=None), task(7, tp=[]), task("x" * 10_000)],
)  # fmt: skip
def test_what_cannot_be_read_counts_as_one_gpu(given: dict[str, Any]) -> None:
    gpus, memory = andon.estimate_gpu_requirements(given)
    assert gpus == 1
    assert memory in (8000, 12000)


def test_a_number_that_is_left_to_the_engine_is_no_mistake() -> None:
    left_open = task_need(task("x-17b", **{"max-model-len": "auto", "max_num_seqs": -1}))
    assert left_open == task_need(task("x-17b"))
    assert task_need(task("x-17b", tp="auto")).notes[0].endswith("; it is left out")
