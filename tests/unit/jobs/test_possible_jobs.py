"""What this machine can never start is refused when it is submitted, not queued."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from andon.cli.commands.jobs import submit as submitting
from andon.errors import AndonError
from andon.jobs.queue import checked_specs
from andon.model.device import Fault, Snapshot
from andon.model.job.spec import JobSpec
from andon.units import GIB
from tests.support.rows import rows
from tests.support.sharing_parts import gpu, request

TWO = Snapshot("n", 1.0, devices=(replace(gpu(0), cuda_index=1), replace(gpu(1), cuda_index=0)))


def spec(**asked: Any) -> JobSpec:
    return JobSpec(0, "x", ("true",), "/", request(**asked), 1.0)


def sampling(snapshot: Snapshot) -> Callable[[], Snapshot]:
    return lambda: snapshot


@rows(
    ("asked", "words"),
    [
        ({"count": 5}, "5 GPUs requested, only 2 visible"),
        ({"memory_bytes": 99 * GIB}, "no GPU can satisfy this"),
        ({"models": ("A100",)}, "no device here is of model 'A100'"),
        ({"devices": ("7",)}, "there is no device '7'"),
        ({"labels": ("fast",)}, "no device has the label 'fast'"),
        ({"count": 2, "exclude": ("0",)}, "2 GPUs requested, only 1 can satisfy this"),
    ],
)
def test_what_can_never_be_met_is_refused_at_once(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(AndonError, match=words):
        checked_specs([spec(**asked)], sampling(TWO), {})


def test_what_can_be_met_is_queued_and_any_device_is_not_even_looked_at() -> None:
    def never() -> Snapshot:
        raise AssertionError("the devices were read")

    plain = [spec(), spec(count=0)]
    assert checked_specs(plain, never, {}) == plain
    asked = [spec(count=2, memory_bytes=40 * GIB)]
    assert checked_specs(asked, sampling(TWO), {}) == asked
    large = [spec(count=9)]
    assert checked_specs(large, sampling(Snapshot("n", 1.0)), {}) == large, "no driver answers yet"
    assert checked_specs(large, sampling(replace(TWO, simulated=True)), {}) == large, "others"


def test_a_cuda_number_is_settled_under_the_masks_of_the_submission() -> None:
    [made] = checked_specs([spec(devices=("cuda:0", "0"), count=2)], sampling(TWO), {})
    assert made.request.devices == ("GPU-1", "0")


def test_whether_there_is_a_gpu_is_asked_of_the_driver_where_no_file_shows_one(
    tmp_path: Path,
) -> None:
    root = f"{tmp_path}/"
    assert submitting._no_gpu(sampling(TWO), root) is None
    none = sampling(Snapshot("n", 1.0, faults=(Fault("nvidia", "the driver is not loaded"),)))
    said = "no GPU can be read on this node: nvidia: the driver is not loaded"
    assert submitting._no_gpu(none, root) == said
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidiactl").touch()
    assert submitting._no_gpu(none, root) is None
