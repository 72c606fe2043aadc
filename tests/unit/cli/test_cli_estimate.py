"""`andon estimate`: what a person reads, and what bad input is answered with."""

import json
from pathlib import Path
from typing import Any

import pytest

from andon.cli.main import run
from andon.cli.show.estimate import render_estimate
from andon.cli.show.text import painted
from andon.estimate.rules.config_json import config_facts
from andon.estimate.rules.estimating import estimate, measured
from andon.estimate.rules.fits import GpuCapacity
from andon.estimate.rules.gpu_sizes import capacities_on
from andon.estimate.rules.learned import LearnedPeak
from andon.estimate.rules.names import name_facts
from andon.estimate.rules.options import EstimateOptions, ServingEngine
from andon.units import GIB
from tests.conftest import REPOSITORY
from tests.support.model_configs import CONFIGS
from tests.support.snapshots import assert_golden
from tests.support.waiting import wait_for

ROOMS = (
    GpuCapacity("GPU-0", "0", "NVIDIA H200", 140 * GIB, 139 * GIB, vendor="nvidia"),
    GpuCapacity("GPU-1", "1", "NVIDIA H200", 140 * GIB, 12 * GIB, obstacle="in use by bob"),
    GpuCapacity("GPU-2", "2", "NVIDIA T4", 15 * GIB, 15 * GIB, vendor="nvidia"),
)


def test_what_is_printed_looks_as_drawn() -> None:
    llama = config_facts(CONFIGS["Llama-3.1-8B"], "Llama-3.1-8B")
    peak = LearnedPeak(3, 30 * GIB, 1.0, (("NVIDIA H200", 30 * GIB),))
    training = EstimateOptions(ServingEngine.TRAINING, lora=16, sequence=4096)
    situations = {
        "it fits": estimate(llama, EstimateOptions(context=8192), ROOMS),
        "a refused size": estimate(llama, EstimateOptions(tp=3), ROOMS),
        "training": estimate(llama, training, ROOMS),
        "too large": estimate(name_facts("deepseek-v3"), EstimateOptions(tp=2), ROOMS),
        "no GPU": estimate(name_facts("llama-3-8b"), EstimateOptions(), ()),
        "measured": measured(peak, ROOMS, ["python", "train.py"]),
    }
    drawn = [
        f"== {title}\n" + painted(render_estimate(found, None, None, 80))
        for title, found in situations.items()
    ]
    assert_golden("estimate-80.txt", "\n".join(drawn))


def test_the_example_of_the_docs_is_what_is_printed() -> None:
    found = estimate(
        name_facts("gpt-oss-120b"),
        EstimateOptions(),
        capacities_on("1xH100,1xL40S"),
        is_elsewhere=True,
    )
    shown = painted(render_estimate(found, None, None, 90))
    page = (REPOSITORY / "docs/estimate.md").read_text("utf-8")
    assert "".join(f"    {line}".rstrip() + "\n" for line in shown.splitlines()) in page


BAD = [
    ([], 2, "no model is named"),
    (["nonsense"], 2, "does not contain a size"),
    (["/dev/zero"], 2, "not a file that andon knows"),
    (["/no/such.gguf"], 5, "there is no file"),
    (["llama-3-8b", "--tp", "0"], 2, "--tp is '0', not a whole number"),
    (["llama-3-8b", "--tensor_parallel_size=x"], 2, "--tp is 'x'"),
    (["llama-3-8b", "--engine", "zip"], 2, "--engine 'zip' is not known"),
    (["llama-3-8b", "--quantization", "zip"], 2, "quantization 'zip' is not known"),
    (["--", "ls", "-l"], 2, "'ls -l' does not start a server that andon knows"),
    (["--", "vllm", "serve"], 2, "but no model"),
    (["--", "vllm", "serve", "m-8b", "--config", "/no/file"], 2, "no such file or directory"),
    (["--"], 2, "no model is named"),
    (["llama-3-8b", "--on-gpus", "4xZebra"], 2, "the GPU 'Zebra' is not known"),
]


@pytest.mark.process
def test_bad_input_is_one_sentence_and_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    for words, code, said in BAD:
        assert run(["estimate", "--simulate", "1", *words]) == code, words
        assert said in capsys.readouterr().err, words


@pytest.mark.process
def test_a_command_line_with_a_file_is_answered_as_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "c.yaml").write_text("model: llama-3-8b\ntensor-parallel-size: 2\n")
    line = ["A=b", "vllm", "serve", "--config", str(tmp_path / "c.yaml"), "--max-model-len", "4096"]

    value: dict[str, Any] = {}

    def all_are_read() -> bool:
        assert run(["estimate", "--simulate", "4", "--json", "--", *line]) == 0
        value.update(json.loads(capsys.readouterr().out))
        return len(value["fits"]) == 4

    wait_for(all_are_read, 50.0)  # a busy machine reads them late
    assert (value["model"], value["world_size"], value["context"]) == ("llama-3-8b", 2, 4096)
    assert value["understood"].startswith("understood: vllm, context 4096")
    assert "-- env A=b vllm serve" in value["run"]


@pytest.mark.process
def test_a_refused_size_exits_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", "--simulate", "1", "llama-3-8b", "--tp-size", "3"]) == 1
    assert "the nearest that work: --tp 2 or --tp 4" in capsys.readouterr().out
