"""Cost of the callbacks in training loops: `python -m bench.callbacks`, after `make frameworks`.

Each framework makes steps of 50 ms without and with its callback, in turns (ABAB) in one process.
Prints what a step takes longer, what the hooks themselves take, what the import takes beyond the
framework's, and beside andon's sampling W&B's system monitor on the same eight GPUs of the stand-in
driver: the CPU of both, and the values that both have. What the clock shows for a hook that does
nothing is subtracted from the hooks.
"""

import argparse
import json
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
from tests.frameworks.trackers import wandb_system
from tests.standin import StandIn, build

STEP_SECONDS = 0.05
MOST_PERCENT, MOST_MICROSECONDS, MOST_IMPORT_MILLISECONDS = 0.5, 20.0, 30.0
PYTHON = Path(__file__).parent.parent / ".build/frameworks/bin/python"
LIBRARY = PYTHON.parents[2] / "standin"
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
BOTH = {
    "gpu": "utilization_percent", "memoryAllocatedBytes": "memory_used_bytes",
    "temp": "temperature_celsius", "powerWatts": "power_watts",
    "enforcedPowerLimitWatts": "power_limit_watts", "smClock": "sm_clock_mhz",
    "memoryClock": "memory_clock_mhz",
}  # fmt: skip
"""The values of GPUs that W&B's monitor has too, with our names."""
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
        build(LIBRARY)  # its header is in this environment
        os.execv(PYTHON, [str(PYTHON), "-m", "bench.callbacks", *sys.argv[1:]])
    os.environ |= SURROUNDINGS
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["XDG_STATE_HOME"] = folder
        missed = [name for name in options.only if not _measured(name, options)]
        if not options.brief and not _beside(options.seconds, Path(folder)):
            missed.append("the values of W&B's monitor")
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
    nothing = _empty_hook()
    hooks = [(one - nothing) * 1e6 for turn in turns[True] for one in turn.hooks]
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


def _empty_hook() -> float:
    """What the clock says of a hook that does nothing, after the same pause."""
    turn = Turn()
    empty = _timed(_Empty(), turn)
    for _ in range(40):
        time.sleep(STEP_SECONDS)
        empty.on_step_end()
    return median(turn.hooks)


class _Empty:
    """A callback that does nothing."""

    def on_step_end(self) -> None:
        """Nothing."""


def _import_milliseconds(name: str) -> float:
    code = (
        f"{BASES[name]}; import time; began = time.process_time(); "
        f"import andon.callbacks.{name}; print(time.process_time() - began)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return 1000 * float(done.stdout.split()[-1])


def _beside(seconds: float, folder: Path) -> bool:
    """CPU of each, with its processes, while the program itself sleeps; both sample at 1 Hz. Then
    the values that both have; returns whether they are the same."""
    standin = StandIn(folder / "standin")
    standin.write(StandIn.devices(8))
    for index in range(8):
        standin.change(index, gpu_utilisation=90 + index, temperature=60 + index,
                       power_mw=500_000 + 1000 * index, used=(10 + index) << 30)  # fmt: skip
    environment = {**standin.environment(LIBRARY), "ANDON_SIMULATE": "0"}
    for name in ("wandb", "andon"):
        done = subprocess.run(
            [sys.executable, "-c", BESIDE, name, str(seconds)],
            capture_output=True,
            text=True,
            env=environment,
        )
        spent = float(done.stdout.split()[-1]) if done.returncode == 0 else float("nan")
        print(f"{name:13} at 1 Hz: {100 * spent / seconds:.2f} % of a core over {seconds:.0f} s")
    theirs, ours = wandb_system(folder), _samples(folder)
    same = bool(theirs)
    print(f"{'W&B':26} {'andon':28} GPU 0 to 7: W&B / andon")
    for name, own in BOTH.items():
        pairs = [(theirs.get(f"gpu.{index}.{name}"), ours[index][own]) for index in range(8)]
        same = same and all(a is not None and abs(a - b) <= 0.01 * abs(b) for a, b in pairs)
        print(f"{name:26} {own:28} {'  '.join(f'{a:g}/{b:g}' for a, b in pairs)}")
    return same


def _samples(folder: Path) -> list[dict[str, Any]]:
    """The last sample of andon's record, by device."""
    (path,) = folder.glob("andon/runs/beside*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    samples = [line["devices"] for line in lines if line["event"] == "sample"]
    return list(samples[-1].values())


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
