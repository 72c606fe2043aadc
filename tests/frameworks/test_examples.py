"""The three examples of docs/python.md, as they stand; and what a missing framework says."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.frameworks.conftest import Lines
from tests.frameworks.models import SlowItems, TinyModel

DOCS = Path(__file__).parent.parent.parent / "docs/python.md"
EXAMPLES = [
    block
    for block in re.findall(r"^```python\n(.*?)^```", DOCS.read_text(), re.DOTALL | re.MULTILINE)
    if "andon.callbacks." in block
]


def given(framework: str, folder: Path) -> dict[str, Any]:
    """What an example takes for granted."""
    if framework == "lightning":
        from lightning.pytorch.demos.boring_classes import BoringModel

        return {"model": BoringModel()}
    if framework == "transformers":
        from transformers import TrainingArguments

        args = TrainingArguments(str(folder), num_train_epochs=1, report_to=[], use_cpu=True)
        return {"model": TinyModel(), "args": args, "dataset": SlowItems(16)}
    import keras
    import numpy as np

    class Batches(keras.utils.PyDataset):
        """Two batches."""

        def __len__(self) -> int:
            return 2

        def __getitem__(self, place: int) -> Any:
            return np.ones((4, 8), "float32"), np.ones((4, 1), "float32")

    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile(loss="mse")
    return {"model": model, "dataset": Batches()}


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_as_it_stands(
    example: str, state: Path, records: Callable[[], list[Lines]]
) -> None:
    framework = re.findall(r"andon\.callbacks\.(\w+)", example)[0]
    exec(example, given(framework, state))
    assert [lines[-1]["state"] for lines in records()] == ["succeeded"]


def test_each_framework_has_an_example() -> None:
    names = [re.findall(r"andon\.callbacks\.(\w+)", example)[0] for example in EXAMPLES]
    assert names == ["lightning", "transformers", "keras"]


def test_a_missing_framework_is_named_with_what_to_install() -> None:
    code = "import sys; sys.modules['keras'] = None; import andon.callbacks.keras"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ImportError: Keras is not installed here: pip install keras" in done.stderr
