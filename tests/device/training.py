"""The callbacks of the frameworks on real training: energy as the counter says, memory as torch.

`dev/device_frameworks` gathers the frameworks in .build/device, for a machine without them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import REPOSITORY
from tests.device.scenes import Scene, SkippedError
from tests.device.sharing import book, environment_of

LIMIT_SECONDS = 300.0
CARRIED = REPOSITORY / ".build/device"
MOST_OFF = 0.03
BEGIN = """
import json, os, sys, time
os.environ["KERAS_BACKEND"] = "torch"
SECONDS = 15
try:
    import pynvml, torch
    FRAMEWORK
except ImportError as missing:
    sys.exit(f"cannot compute here: {missing}")
if not torch.cuda.is_available():
    sys.exit("cannot compute here: torch sees no CUDA device")
pynvml.nvmlInit()
place = torch.cuda.get_device_properties(0).uuid
card = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{place}")
joules = lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(card) / 1000

class Meter:
    "Reads the counter with the record: at the begin of its fit and at the end."
    def begin(self):
        torch.zeros(1, device="cuda")
        torch.cuda.reset_peak_memory_stats()
        self.before = joules()
    def end(self, run):
        torch.cuda.synchronize()
        used = joules() - self.before
        free, total = torch.cuda.mem_get_info()
        # The context, which grows with the kernels that are loaded, and others.
        outside = total - free - torch.cuda.memory_reserved()
        peak = outside + torch.cuda.max_memory_reserved()
        print(json.dumps({"joules": used, "peak": peak, "record": str(run.path)}))

meter, until = Meter(), time.monotonic() + 3600

def body():
    return torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(8)])
"""
LIGHTNING = """
import lightning
from andon.callbacks.lightning import GpuMonitorCallback

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.body = body()
    def training_step(self, batch, index):
        if time.monotonic() > until:
            self.trainer.should_stop = True
        return (self.body(batch) - batch).square().mean()
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-5)

items = torch.utils.data.DataLoader([torch.randn(4096)] * 65536, batch_size=8192)
callback = GpuMonitorCallback(name="lightning")
trainer = lightning.Trainer(
    devices=1, max_epochs=-1, logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, callbacks=[callback],
)
module = Module()
meter.begin()
until = time.monotonic() + SECONDS
trainer.fit(module, items)
meter.end(callback.run)
"""
TRANSFORMERS = """
from transformers import Trainer, TrainerCallback, TrainingArguments
from andon.callbacks.transformers import GpuMonitorCallback

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = body()
    def forward(self, x, labels):
        return {"loss": (self.body(x) - x).square().mean()}

class Until(TrainerCallback):
    def on_step_end(self, args, state, control, **more):
        control.should_training_stop = time.monotonic() > until

items = [{"x": torch.randn(4096), "labels": torch.tensor(0.0)}] * 65536
callback = GpuMonitorCallback(name="transformers")
args = TrainingArguments(
    "out", per_device_train_batch_size=8192, max_steps=100000, report_to=[], disable_tqdm=True,
    save_strategy="no", learning_rate=1e-5,
)
trainer = Trainer(Model(), args, train_dataset=items, callbacks=[callback, Until()])
meter.begin()
until = time.monotonic() + SECONDS
trainer.train()
meter.end(callback.run)
"""
KERAS = """
import keras
from andon.callbacks.keras import GpuMonitorCallback

class Until(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.model.stop_training = time.monotonic() > until

class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 100000
    def __getitem__(self, place):
        return batch, batch

batch = torch.randn(8192, 4096)
model = keras.Sequential([keras.Input((4096,)), *[keras.layers.Dense(4096) for _ in range(8)]])
model.compile(loss="mse", optimizer=keras.optimizers.Adam(1e-5))
callback = GpuMonitorCallback(name="keras")
meter.begin()
until = time.monotonic() + SECONDS
model.fit(Batches(), verbose=0, callbacks=[callback, Until()])
meter.end(callback.run)
"""
PROGRAMS = {
    "lightning": ("import lightning", LIGHTNING),
    "transformers": ("from transformers import Trainer; import accelerate", TRANSFORMERS),
    "keras": ("import keras", KERAS),
}


def the_frameworks_callbacks_agree_with_the_counter_and_with_torch(scene: Scene) -> str:
    said, missing = [], []
    for name, (imports, program) in PROGRAMS.items():
        with book() as env:
            done = _run(BEGIN.replace("FRAMEWORK", imports) + program, env)
            if "cannot compute here" in done.stderr:
                missing.append(done.stderr.strip().splitlines()[-1])
                continue
            assert done.returncode == 0, f"{name}: {done.stderr[-2000:]}"
            said.append(_judged(name, json.loads(done.stdout.splitlines()[-1])))
    if not said:
        raise SkippedError("; ".join(missing))
    return "; ".join(said + missing)


def _judged(name: str, told: dict[str, Any]) -> str:
    lines = [json.loads(line) for line in Path(told["record"]).read_text().splitlines()]
    (use,) = lines[-1]["summary"].values()
    energy = use["energy_joules"] / told["joules"] - 1
    memory = use["peak_memory_bytes"] / told["peak"] - 1
    assert use["energy_source"] == "counter"
    assert abs(energy) < MOST_OFF, f"{name}: {energy:+.1%} of the counter's {told['joules']:.0f} J"
    assert abs(memory) < MOST_OFF, f"{name}: {memory:+.1%} of torch's {told['peak']} bytes"
    waited = lines[-1]["last_values"].get("waiting_for_data_percent")
    return (
        f"{name}: {told['joules']:.0f} J ({energy:+.1%}), peak {told['peak'] / 2**30:.2f} GiB "
        f"({memory:+.1%}), waited {waited} %"
    )


def _run(program: str, env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    more = environment_of(env)
    paths = [str(REPOSITORY / "src"), *([str(CARRIED)] if CARRIED.exists() else [])]
    more["PYTHONPATH"] = os.pathsep.join([*filter(None, [more.get("PYTHONPATH")]), *paths])
    more["CUDA_VISIBLE_DEVICES"] = "0"
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT_SECONDS,
        env=more, check=False, cwd=Path(env["ANDON_CONFIG"]).parent,
    )  # fmt: skip
