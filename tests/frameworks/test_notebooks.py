"""`%andon` in a real kernel: what each cell shows, and what was recorded."""

import os
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

CELLS = (
    "%load_ext andon",
    "%andon",
    "%andon why",
    "%andon free",
    "%andon watch 1s",
    "%%andon finetune\nimport time\ntime.sleep(1.2)\n6 * 7",
    "%andon runs",
    "import andon\nandon.snapshot()",
    "%%andon broken\nraise ValueError('<b>oh</b>')",
    "%%andon --gpus 1 mine\nimport os\nprint(os.environ['CUDA_VISIBLE_DEVICES'])",
    "from andon.callbacks.training import TrainingMonitor\n"
    "fit = TrainingMonitor(name='cell', quiet=True)\nfit.fit_begins(None)\n1 / 0",
    "while fit.run.ended is None:\n    time.sleep(0.1)\nfit.run.ended.message",
    "%andon top",
    "%andon nothing",
    "from andon.model.run.record import RunRow, RunKind, RunState\n"
    "RunRow('abcdefgh', '<script>x</script>', RunKind.CODE, RunState.SUCCEEDED, 'n', 1.0, 'p')",
    "import sys, types\nfake = types.ModuleType('torch')\n"
    "fake.cuda = types.SimpleNamespace(is_initialized=lambda: True)\nsys.modules['torch'] = fake",
    "%%andon --gpus 1\n1",
    "%%andon --what\n1",
)


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The notebook after all of its cells; its HTML is kept in .build for a look."""
    folder = tmp_path_factory.mktemp("notebook")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        patch.setenv("ANDON_LEASE_DIR", str(folder / "book"))
        patch.setenv("JUPYTER_PLATFORM_DIRS", "1")
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        client = NotebookClient(book, timeout=120, allow_errors=True, kernel_name="python3")
        client.execute(cwd=str(folder))
    place = Path(__file__).parent.parent.parent / ".build"
    nbformat.write(book, str(place / "notebook.ipynb"))
    return book


def outputs(book: Any, cell: str) -> list[Any]:
    return list(book.cells[CELLS.index(next(c for c in CELLS if c.startswith(cell)))].outputs)


def html(book: Any, cell: str) -> str:
    return "".join(one["data"].get("text/html", "") for one in outputs(book, cell) if "data" in one)


def plain(book: Any, cell: str) -> str:
    texts = [one["data"].get("text/plain", "") for one in outputs(book, cell) if "data" in one]
    return "\n".join(texts) + "".join(one.get("text", "") for one in outputs(book, cell))


def test_commands_are_shown_as_html_and_as_text(executed: Any) -> None:
    for cell, words in (("%andon", "SIMULATED"), ("%andon free", "free"), ("%andon why", "GPU")):
        assert words in plain(executed, cell), cell
        assert '<div class="andon">' in html(executed, cell)
        assert "\x1b" not in html(executed, cell) + plain(executed, cell)
    assert 'class="bold' in html(executed, "%andon")
    assert "for a terminal: !andon top" in plain(executed, "%andon top")
    assert "unknown command" in plain(executed, "%andon nothing")


def test_a_live_cell_repaints_in_place_and_ends(executed: Any) -> None:
    (shown,) = outputs(executed, "%andon watch")
    assert "SIMULATED" in shown["data"]["text/plain"]


def test_a_cell_is_recorded_and_says_what_it_used(executed: Any) -> None:
    text = plain(executed, "%%andon finetune")
    assert "42" in text
    assert "GPU 0 · " in text
    (length,) = set(re.findall(r" busy of ([\d.]+) s", text))
    assert float(length) >= 1.2, "and on a busy machine more"
    assert "finetune" in plain(executed, "%andon runs")
    failed = outputs(executed, "%%andon broken")
    assert any(one.output_type == "error" for one in failed), "the cell fails"
    assert "GPU 0 · " in plain(executed, "%%andon broken")


def test_a_fit_that_fails_in_a_cell_is_ended(executed: Any) -> None:
    """Keras and Transformers tell callbacks nothing of an error."""
    assert "division by zero" in plain(executed, "while fit.run.ended")


def test_a_cell_with_a_lease_sees_its_devices_alone(executed: Any) -> None:
    assert "SIM-" in plain(executed, "%%andon --gpus 1 mine")
    late = plain(executed, "%%andon --gpus 1\n")
    assert "CUDA was initialised in cell [16] before" in late
    assert "Restart the kernel" in late
    (mistake,) = outputs(executed, "%%andon --what")
    assert "is not understood" in mistake["evalue"]


def test_values_are_shown_by_the_tables_and_escaped(executed: Any) -> None:
    assert "SIMULATED" in plain(executed, "import andon")
    assert "<th>MODEL</th>" in html(executed, "import andon")
    shown = html(executed, "from andon.model.run.record")
    assert "&lt;script&gt;x&lt;/script&gt;" in shown
    assert "<script>" not in shown


def test_the_extension_imports_ipython_and_andon_alone_does_not() -> None:
    import subprocess
    import sys

    code = "import andon, sys; print('IPython' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ)
    )
    assert done.stdout.split() == ["False", "False"]
