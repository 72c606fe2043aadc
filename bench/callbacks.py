"""Cost of the callbacks in training loops: `python -m bench.callbacks`, after `make frameworks`.

Each framework makes steps of 50 ms without and with its callback, in turns (ABAB) in one process.
Prints what a step takes longer, what the hooks themselves take, what the import takes beyond the
framework's, and the CPU of W&B's system monitor beside andon's sampling.
"""

import argparse
import logging
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean, median
from typing import Any

from msgspec import Struct, field

STEP_SECONDS = 0.05
MOST_PERCENT, MOST_MICROSECONDS, MOST_IMPORT_MILLISECONDS = 0.5, 20.0, 30.0
PYTHON = Path(__file__).parent.parent / ".build/frameworks/bin/python"
HOOKS = (
    "on_train_batch_start", "on_train_batch_end", "on_train_batch_begin", "on_step_begin",
    "on_step_end",
)  # fmt: skip
BASES = {
    "lightning": "from lightning.pytorch import Callback",
    "transformers": "from transformers import TrainerCallback",
    "keras": "from keras.callbacks import Callback",
}
SURROUNDINGS = {
    "KERAS_BACKEND": "torch", "WANDB_MODE": "offline", "WANDB_SILENT": "true",
    "HF_HUB_OFFLINE": "1", "ANDON_SIMULATE": "8",
}  # fmt: skip
BESIDE = """
import os, sys, time
began = time.monotonic()
if sys.argv[1] == "wandb":
    import wandb
    run = wandb.init(settings=wandb.Settings(x_stats_sampling_interval=1.0, console="off"))
    end = run.finish
else:
    import andon
    end = andon.run("beside", quiet=True).begin().end
time.sleep(3.0)
before, at = os.times(), time.monotonic()
def below():
    ids, ours = [], {}
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
        except OSError:
            continue
        ours[int(pid)] = (int(words[1]), int(words[11]) + int(words[12]))
    def mine(pid):
        while pid in ours and pid != os.getpid():
            pid = ours[pid][0]
        return pid == os.getpid()
    return sum(ticks for pid, (_, ticks) in ours.items() if mine(pid)) / os.sysconf("SC_CLK_TCK")
spent = below()
time.sleep(float(sys.argv[2]))
print(below() - spent, flush=True)
end()
"""


class Turn(Struct):
    """One fit: when each step began, by the clock and in CPU time of the process, and the CPU time
    of each step's hooks: other programs take nothing of that."""

    began: list[float] = field(default_factory=list)
    spent: list[float] = field(default_factory=list)
    hooks: list[float] = field(default_factory=list)

    def step(self) -> None:
        self.began.append(time.perf_counter())
        self.spent.append(time.process_time())
        time.sleep(STEP_SECONDS)

    def periods(self) -> list[float]:
        pairs = zip(self.began[5:], self.began[6:], strict=False)  # the first ones warm up
        return [later - earlier for earlier, later in pairs]

    def cpu(self) -> float:
        """CPU seconds of a step, on average."""
        return (self.spent[-1] - self.spent[5]) / (len(self.spent) - 6)


def main() -> None:
    options = _options()
    if not PYTHON.exists():
        sys.exit("make frameworks makes the environment that this needs")
    if Path(sys.executable).parent != PYTHON.parent:
        os.execv(PYTHON, [str(PYTHON), "-m", "bench.callbacks", *sys.argv[1:]])
    os.environ |= SURROUNDINGS
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["XDG_STATE_HOME"] = folder
        missed = [name for name in options.only if not _measured(name, options)]
        if not options.brief:
            _beside(options.seconds)
    print(f"missed: {', '.join(missed)}" if missed else "all kept")
    sys.exit(bool(missed))


def _measured(name: str, options: argparse.Namespace) -> bool:
    fit, callback = FITS[name]()
    logging.disable()
    turns: dict[bool, list[Turn]] = {False: [], True: []}
    for _ in range(options.rounds):
        for used in (False, True):
            turn = Turn()
            fit(turn, options.steps, [_timed(callback(), turn)] if used else [])
            turns[used].append(turn)
    plain, ours = (
        median([one for turn in turns[used] for one in turn.periods()]) for used in (False, True)
    )
    percent = 100 * (ours - plain) / STEP_SECONDS
    cpus = [median([turn.cpu() for turn in turns[used]]) for used in (False, True)]
    cpu = 100 * (cpus[1] - cpus[0]) / STEP_SECONDS
    hooks = [one * 1e6 for turn in turns[True] for one in turn.hooks]
    imported = _import_milliseconds(name)
    kept = percent <= MOST_PERCENT and median(hooks) <= MOST_MICROSECONDS
    kept = kept and imported <= MOST_IMPORT_MILLISECONDS
    print(
        f"{name:13} step {1000 * plain:.2f} ms, with {1000 * ours:.2f} ms: {percent:+.2f} %, "
        f"CPU {cpu:+.2f} %   hook {median(hooks):.1f} µs (mean {fmean(hooks):.1f})   "
        f"import {imported:.1f} ms CPU   {'kept' if kept else 'MISSED'}"
    )
    return kept


def _timed(callback: Any, turn: Turn) -> Any:
    """The callback with a clock around the hooks of each step."""

    def around(hook: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **more: Any) -> Any:
            began = time.thread_time()
            try:
                return hook(*args, **more)
            finally:
                turn.hooks.append(time.thread_time() - began)

        return called

    for name in HOOKS:
        if name in vars(type(callback)):
            setattr(callback, name, around(getattr(callback, name)))
    return callback


def _import_milliseconds(name: str) -> float:
    code = (
        f"{BASES[name]}; import time; began = time.process_time(); "
        f"import andon.callbacks.{name}; print(time.process_time() - began)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return 1000 * float(done.stdout.split()[-1])


def _beside(seconds: float) -> None:
    """CPU of each, with its processes, while the program itself sleeps; both sample at 1 Hz."""
    for name in ("wandb", "andon"):
        done = subprocess.run(
            [sys.executable, "-c", BESIDE, name, str(seconds)], capture_output=True, text=True
        )
        spent = float(done.stdout.split()[-1]) if done.returncode == 0 else float("nan")
        print(f"{name:13} at 1 Hz: {100 * spent / seconds:.2f} % of a core over {seconds:.0f} s")


def _lightning() -> tuple[Callable[..., None], Callable[[], Any]]:
    import lightning
    from lightning.pytorch.demos.boring_classes import BoringModel

    from andon.callbacks.lightning import GpuMonitorCallback

    class Model(BoringModel):
        """Makes a step of a known length."""

        def __init__(self, turn: Turn) -> None:
            super().__init__()
            self.turn = turn

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            self.turn.step()
            return super().training_step(batch, batch_idx)

    def fit(turn: Turn, steps: int, callbacks: list[Any]) -> None:
        lightning.Trainer(
            accelerator="cpu", max_steps=steps, logger=False, enable_progress_bar=False,
            enable_model_summary=False, enable_checkpointing=False, limit_val_batches=0,
            callbacks=callbacks,
        ).fit(Model(turn))  # fmt: skip

    return fit, lambda: GpuMonitorCallback(quiet=True)


def _transformers() -> tuple[Callable[..., None], Callable[[], Any]]:
    import torch
    from transformers import Trainer, TrainingArguments

    from andon.callbacks.transformers import GpuMonitorCallback

    class Model(torch.nn.Module):
        """Makes a step of a known length."""

        def __init__(self, turn: Turn) -> None:
            super().__init__()
            self.turn, self.layer = turn, torch.nn.Linear(8, 1)

        def forward(self, x: Any, labels: Any) -> dict[str, Any]:
            self.turn.step()
            return {"loss": (self.layer(x).squeeze(-1) - labels).square().mean()}

    def fit(turn: Turn, steps: int, callbacks: list[Any]) -> None:
        items = [{"x": torch.ones(8), "labels": torch.tensor(1.0)}] * 64
        args = TrainingArguments(
            "out", max_steps=steps, report_to=[], use_cpu=True, disable_tqdm=True,
            save_strategy="no", logging_strategy="no",
        )  # fmt: skip
        Trainer(Model(turn), args, train_dataset=items, callbacks=callbacks).train()

    return fit, lambda: GpuMonitorCallback(quiet=True)


def _keras() -> tuple[Callable[..., None], Callable[[], Any]]:
    import keras
    import numpy as np

    from andon.callbacks.keras import GpuMonitorCallback

    class Model(keras.Sequential):
        """Makes a step of a known length."""

        turn: Turn

        def train_step(self, data: Any) -> Any:
            self.turn.step()
            return super().train_step(data)

    def batches() -> Iterator[Any]:
        while True:
            yield np.ones((4, 8), "float32"), np.ones((4, 1), "float32")

    def fit(turn: Turn, steps: int, callbacks: list[Any]) -> None:
        model = Model([keras.Input((8,)), keras.layers.Dense(1)])
        model.turn = turn
        model.compile(loss="mse", run_eagerly=True)
        model.fit(batches(), steps_per_epoch=steps, verbose=0, callbacks=callbacks)

    return fit, lambda: GpuMonitorCallback(quiet=True)


FITS = {"lightning": _lightning, "transformers": _transformers, "keras": _keras}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="turns of both, ABAB")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30.0, help="beside W&B's monitor")
    parser.add_argument("--brief", action="store_true", help="without W&B's monitor")
    parser.add_argument("--only", nargs="*", choices=list(FITS), default=list(FITS))
    return parser.parse_args()


if __name__ == "__main__":
    main()
