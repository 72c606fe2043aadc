"""Which GPUs a model fits on, the smallest size, the command to type, and measured peaks."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.errors import Invalid
from andon.estimate.rules.config_json import config_facts
from andon.estimate.rules.estimating import Estimate, estimate, measured, verdict_text
from andon.estimate.rules.fits import GpuCapacity, together
from andon.estimate.rules.gpu_sizes import capacities_on
from andon.estimate.rules.learned import learned_peak, same_command
from andon.estimate.rules.names import name_facts
from andon.estimate.rules.options import EstimateOptions, ServingEngine, TrainingPrecision
from andon.estimate.rules.quantisation import plain_bits
from andon.estimate.rules.training import training_need
from andon.estimate.rules.wire import estimate_answer
from andon.model.codec import document
from andon.model.run.record import RunDevice, RunKind, RunRow, RunState
from andon.units import GIB, MIB
from tests.support.model_configs import CONFIGS
from tests.support.rows import rows

H200, L4 = 140 * GIB, 24 * GIB


def capacity(label: str, total: int, free: int | None = -1, **more: Any) -> GpuCapacity:
    left = total if free == -1 else free
    return GpuCapacity(
        f"GPU-{label}", label, f"GPU of {total // GIB}", total, left, vendor="v", **more
    )


def of(name: str, *capacities: GpuCapacity, **sizes: Any) -> Estimate:
    sizes.setdefault("context", 8192)
    return estimate(config_facts(CONFIGS[name], name), EstimateOptions(**sizes), capacities)


def test_it_fits_where_the_share_that_a_server_takes_is_free() -> None:
    found = of(
        "Llama-3.1-8B", capacity("0", H200), capacity("1", H200, 100 * GIB), capacity("2", 16 * GIB)
    )
    assert [(fit.fits_now, fit.fits_empty) for fit in found.fits] == [
        (True, True), (False, True), (False, False)
    ]  # fmt: skip
    assert found.fits[1].reason == "needs 126 GiB free, has 100 GiB"
    assert found.fits[2].reason == "needs 17.2 GiB; vLLM may use 14.4 of 16.0 GiB (90 %)"
    assert found.claim_bytes == round(0.9 * H200)
    assert found.fits[0].requests_at_once == 109
    assert verdict_text(found) == "yes: it fits on 1 GPU now: GPU 0"


def test_one_gpu_is_spoken_of_as_one() -> None:
    small = verdict_text(of("Llama-3.1-8B", capacity("0", 16 * GIB)))
    assert small == "no: it needs 17.2 GiB on one GPU"
    taken = verdict_text(of("Llama-3.1-8B", capacity("0", H200, GIB)))
    assert taken == "not now: it needs 1 GPU, and would fit if one were empty"
    both = verdict_text(
        of("Llama-3.1-8B", capacity("0", H200, GIB), capacity("1", H200, GIB), tp=2)
    )
    assert both == "not now: it needs 2 GPUs, and would fit if they were empty"


def test_a_type_of_packed_weights_names_its_option() -> None:
    with pytest.raises(Invalid) as packed:
        plain_bits("int4")
    assert packed.value.hint == "float32, bfloat16 or float16; packed weights: --quantization int4"
    with pytest.raises(Invalid) as unknown:
        plain_bits("foo")
    assert unknown.value.hint == "float32, bfloat16 or float16"


def test_what_is_not_available_does_not_fit_now() -> None:
    found = of(
        "Llama-3.1-8B", capacity("0", H200, obstacle="held by alice"), capacity("1", H200, None)
    )
    assert [(fit.fits_now, fit.fits_empty) for fit in found.fits] == [(False, True), (None, True)]
    assert found.fits[0].reason == "held by alice"
    assert (found.fits_now, found.fits_empty) == (False, True)
    unknown = of("Llama-3.1-8B", replace(capacity("0", H200), total_bytes=None)).fits[0]
    assert (unknown.fits_now, unknown.fits_empty, unknown.reason) == (
        None,
        None,
        "its memory is not known",
    )


def test_the_smallest_size_that_fits_is_found() -> None:
    many = [capacity(str(n), 80 * GIB) for n in range(8)]
    found = of("Qwen3-32B", *many)
    assert found.smallest_now is not None
    assert found.smallest_now.size == 1
    small = [capacity(str(n), L4) for n in range(8)]
    found = of("Qwen3-32B", *small, tp=4)
    assert found.smallest_empty is not None
    assert found.smallest_empty.size == 4
    assert of("DeepSeek-V3", *small).smallest_empty is None
    layers = of("Qwen3-32B", *small, engine=ServingEngine.TRANSFORMERS).smallest_empty
    assert layers is not None
    assert (layers.option, layers.size) == ("pp", 4)


def test_a_refused_size_has_no_numbers_but_the_nearest() -> None:
    found = of("Llama-3.1-8B", capacity("0", H200), tp=3)
    value = document(estimate_answer(found, None))
    assert value["per_gpu"] is None
    assert value["fits"] == []
    assert value["run"] is None
    assert value["refused"]["nearest"] == [2, 4]
    assert verdict_text(found).startswith("no: vLLM does not start with these sizes: 32 attention")


def test_each_gpu_is_asked_for_what_the_smallest_of_them_has() -> None:
    mixed = [capacity("0", H200), capacity("1", 80 * GIB), capacity("2", 48 * GIB)]
    for engine in (ServingEngine.VLLM, ServingEngine.SGLANG, ServingEngine.TRTLLM):
        found = of("Llama-3.1-8B", *mixed, engine=engine, tp=2)
        chosen = together(found.fits, 2, now=True)
        assert [fit.label for fit in chosen] == ["2", "1"]
        assert found.run is not None
        assert "--unbalanced" in found.run
        asked = float(found.run.split("--memory ")[1].split("GiB")[0])
        assert asked * GIB <= min(fit.total_bytes or 0 for fit in chosen)
    alike = of("Llama-3.1-8B", *mixed, capacity("3", 80 * GIB), tp=2)
    assert alike.run is not None
    assert "--unbalanced" not in alike.run
    assert alike.run.startswith("andon run --gpus 2 --memory 72.0GiB -- vllm serve Llama-3.1-8B")


def test_gpus_of_two_vendors_are_not_taken_together() -> None:
    other = replace(capacity("1", 80 * GIB), vendor="w")
    found = of("Llama-3.1-8B", capacity("0", 80 * GIB), other, tp=2)
    assert found.fits_empty is False
    assert found.run is None


def test_the_json_has_the_promised_fields() -> None:
    value = document(estimate_answer(of("Llama-3.1-8B", capacity("0", H200)), None))
    assert value["schema"] == "andon.estimate/1"
    assert {"model", "source", "confidence", "world_size", "parameters", "fits", "smallest"} <= set(
        value
    )
    per_gpu = ("weights", "kv", "activations", "overhead", "minimum", "comfortable", "claim")
    assert all(value["per_gpu"][f"{name}_bytes"] > 0 for name in per_gpu)
    assert {"uuid", "label", "now", "empty"} <= set(value["fits"][0])
    assert value["sources"]["weights"] == {"source": "config.json", "confidence": "medium"}


def test_without_a_gpu_there_is_still_an_estimate() -> None:
    """A14: "needs 1 GPU" for 135 GiB, and a command that asks one GPU for 149.4GiB."""
    found = estimate(name_facts("llama-3-70b"), EstimateOptions())
    assert (found.fits_now, found.fits_empty) == (None, None)
    said = verdict_text(found)
    assert said == "needs 136 GiB on one GPU; no GPU is known here to compare with"
    assert found.run is None
    assert any("8192 tokens" in note for note in found.notes)
    assert found.notes[-1].startswith("it would fit on 2 x H200 (--tp 2), 2 x H100 (--tp 2), 4 x")
    both = estimate(name_facts("llama-3-70b"), EstimateOptions(tp=2))
    assert verdict_text(both).startswith("needs 69.1 GiB on each of 2 GPUs; no GPU is known")


GPUS = [
    ("4xH100", ["H100"] * 4, 81_559),
    ("h200", ["H200"], 143_771),
    ("1 x NVIDIA H100", ["H100"], 81_559),
    ("2×A100-40GB", ["A100-40GB"] * 2, 40_960),
    ("8x80GiB", ["80GiB GPU"] * 8, 81_920),
    ("3xRTX 4090", ["RTX 4090"] * 3, 24_564),
    ("3x4090", ["RTX 4090"] * 3, 24_564),
    ("GeForce RTX 3090", ["RTX 3090"], 24_576),
    ("2xV100-16gb", ["V100-16GB"] * 2, 16_384),
    ("h100-96gb", ["H100 96gb"], 98_304),
    ("1xMI300X", ["MI300X"], 196_592),
]


@rows("text, names, mib", GPUS)
def test_gpus_that_are_not_here_are_named_as_people_do(
    text: str, names: list[str], mib: int
) -> None:
    found = capacities_on(text)
    assert [one.name for one in found] == names
    assert found[0].total_bytes == mib * MIB
    assert found[0].vendor == ("instinct" if "MI" in names[0] else "nvidia")


def test_gpus_of_several_models_are_counted_together() -> None:
    found = capacities_on("2xH100, L4")
    assert [(one.label, one.name) for one in found] == [("0", "H100"), ("1", "H100"), ("2", "L4")]


@rows("text", ["", "4x", "0xH100", "99999xH100", "4xZebra", "x" * 900, "-1xH100"])
def test_gpus_that_nobody_knows_are_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(Invalid, match="--on-gpus") as told:
        capacities_on(text)
    assert len(told.value.reason) < 100


@given(st.text(max_size=30))
def test_no_text_breaks_the_question_about_other_gpus(text: str) -> None:
    with contextlib.suppress(Invalid):
        assert capacities_on(text)


def test_an_estimate_on_gpus_that_are_not_here() -> None:
    def on(gpus: str, **sizes: Any) -> Estimate:
        facts = name_facts("llama-3-70b")
        return estimate(facts, EstimateOptions(**sizes), capacities_on(gpus), is_elsewhere=True)

    assert verdict_text(on("4xH100", tp=4)) == "yes: it fits on 4 x H100"
    too_large = on("4xH100")
    assert verdict_text(too_large) == "no: it needs 136 GiB on one GPU; --tp 2 would fit"
    said = "needs 136 GiB; vLLM may use 71.7 of 79.6 GiB (90 %)"
    assert (too_large.fits[0].reason, too_large.run) == (said, None)
    few = on("4xH100", tp=4, requests=16, context=131_072)
    some = "yes: it fits on 4 x H100, but only 3 of 16 requests of 131,072 tokens at once"
    assert verdict_text(few) == some


COMMAND = "python train.py --batch 8"


def ran(peak: int | None, command: str | None = COMMAND, **more: Any) -> RunRow:
    device = RunDevice("GPU-0", 0, "0", "GPU of 140")
    fields: dict[str, Any] = {
        "id": "abcdefgh", "name": "train", "kind": RunKind.COMMAND, "state": RunState.SUCCEEDED,
        "node": "n", "began": 1.0, "path": "x", "command": command, "devices": (device,),
        "peak_memory_bytes": peak,
    }  # fmt: skip
    return RunRow(**{**fields, **more})


def test_peaks_of_earlier_runs_win_over_the_estimate() -> None:
    learned = learned_peak([ran(30 * GIB), ran(20 * GIB)], COMMAND.split())
    assert learned is not None
    assert (learned.runs, learned.peak_bytes) == (2, 30 * GIB)
    facts = config_facts(CONFIGS["Llama-3.1-8B"], "x")
    training = EstimateOptions(ServingEngine.TRAINING)
    plain = estimate(facts, training, [capacity("0", 48 * GIB)])
    found = estimate(facts, training, [capacity("0", 48 * GIB)], learned)
    assert (plain.fits[0].fits_empty, found.fits[0].fits_empty) == (False, True)
    assert found.fits[0].needed_bytes == 30 * GIB
    assert found.need is not None
    assert found.need.minimum_bytes > 100 * GIB
    serving = estimate(
        facts, EstimateOptions(), [capacity("0", 48 * GIB), capacity("1", H200)], learned
    )
    assert [fit.needed_bytes for fit in serving.fits] == [round(0.9 * 48 * GIB), 30 * GIB]


def test_a_command_that_is_no_server_has_what_its_runs_used() -> None:
    learned = learned_peak([ran(30 * GIB)], COMMAND.split())
    assert learned is not None
    found = measured(learned, [capacity("0", H200)], COMMAND.split())
    assert found.run == f"andon run --gpus 1 --memory 30.0GiB -- {COMMAND}"
    assert document(estimate_answer(found, None))["per_gpu"] is None


def test_only_whole_runs_of_the_same_command_count() -> None:
    others = [
        ran(None),
        ran(GIB, "python train.py --batch 9"),
        ran(GIB, simulated=True),
        ran(GIB, state=RunState.DEVICE_OUT_OF_MEMORY),
        ran(GIB, state=RunState.RUNNING),
        ran(GIB, command=None),
    ]
    assert learned_peak(others, COMMAND.split()) is None
    assert same_command("/usr/bin/python train.py", ["python", "train.py"])
    assert same_command("python train.py", ["A=b", "python", "train.py"])
    assert not same_command("python train.py", [])
    assert same_command("x --api-key ***", ["x", "--api-key", "s3cret"])


BYTES_PER_PARAMETER = [
    ({"precision": TrainingPrecision.FP32}, 16), ({"precision": TrainingPrecision.MIXED}, 16),
    ({"precision": TrainingPrecision.BF16}, 8), ({"zero": 1, "dp": 4}, 4 + 12 / 4),
    ({"zero": 2, "dp": 4}, 2 + 14 / 4), ({"zero": 3, "dp": 4}, 16 / 4), ({"zero": 3}, 16),
]  # fmt: skip


@pytest.mark.parametrize(("given", "each"), BYTES_PER_PARAMETER)
def test_weights_gradients_and_states_take_what_was_measured(
    given: dict[str, Any], each: float
) -> None:
    facts = config_facts(CONFIGS["Llama-3.1-8B"], "x")
    need = training_need(facts, EstimateOptions(ServingEngine.TRAINING, **given))
    held = need.weights_bytes + need.gradients_bytes + need.optimizer_bytes
    assert held / (facts.parameters or 1) == pytest.approx(each, rel=1e-6)


def test_ways_to_train_with_less_memory_need_less() -> None:
    facts = config_facts(CONFIGS["Llama-3.1-8B"], "x")

    def peak(**given: Any) -> int:
        options = EstimateOptions(ServingEngine.TRAINING, sequence=8192, batch=4, **given)
        return training_need(facts, options).minimum_bytes

    assert peak(gradient_checkpointing=True) < peak()
    assert peak(lora=16) < 0.8 * peak()
    assert peak(lora=16, gradient_checkpointing=True) < 0.5 * peak(gradient_checkpointing=True)
    assert peak(precision=TrainingPrecision.BF16) < peak(precision=TrainingPrecision.MIXED)
