"""Probing with a real driver: the batch of a real model, and whether it is true."""

import json
import subprocess
import sys
from typing import Any

from tests.device.scenes import Scene, SkippedError
from tests.device.sharing import book, environment_of
from tests.device.surfaces import COMMAND

LIMIT_GIB = 24.0  # of the card: trials are short where little has to be filled
TRIAL_SECONDS, WHOLE_SECONDS = 60, 300
MORE = 1.3
MODEL = """
import sys
import torch

batch, limit = int(sys.argv[1]), float(sys.argv[2])
torch.cuda.set_per_process_memory_fraction(
    min(1.0, limit * 2**30 / torch.cuda.get_device_properties(0).total_memory)
)
torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 8, enable_nested_tensor=False).cuda()
optimiser = torch.optim.AdamW(model.parameters())
for step in range(3):
    optimiser.zero_grad(set_to_none=True)
    model(torch.randn(batch, 512, 1024, device="cuda")).square().mean().backward()
    optimiser.step()
torch.cuda.synchronize()
print("peak GiB:", torch.cuda.max_memory_allocated() / 2**30)
"""


def the_batch_that_was_found_runs_and_a_third_more_does_not(scene: Scene) -> str:
    """Training of a transformer of 100 M parameters, in a part of the card's memory."""
    _need_torch()
    with book() as named:
        env = environment_of(named)
        found = _probed(env)
        batch = found["largest"]
        assert batch is not None, found
        assert _runs(batch, env), f"{batch} was found, and does not run"
        above = int(MORE * batch) + 1
        assert not _runs(above, env), f"{batch} was found, and {above} runs too"
    trials = found["trials"]
    peaks = [one["peak_memory_bytes"] for one in trials if one["state"] == "fits"]
    assert any(peaks), "no trial was measured"
    seconds = sum(one["seconds"] for one in trials)
    return (
        f"{batch} fits, {found['too_large']} and {above} do not, {found['recommended']} "
        f"recommended; {len(trials)} trials in {seconds:.0f} s"
    )


def the_links_of_the_devices_are_told(scene: Scene) -> str:
    """One device has no links; several have a known way between each two."""
    done = subprocess.run(
        [*COMMAND, "devices", "--topology", "--json"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["schema"] == "andon.topology/1"
    if not all(one["source"] for one in found["devices"]):
        raise SkippedError("neither the driver nor the kernel tells where these devices are")
    unknown = [link for link in found["links"] if link["kind"] == "unknown"]
    assert not unknown, unknown
    places = [(one["numa_node"], one["cpus"], one["source"]) for one in found["devices"]]
    return f"{places}; {len(found['links'])} links, groups {found['groups']}"


def _probed(env: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(
        [*COMMAND, "probe", "-d", "0", "--min", "8", "--max", "256", "--json",
         "--timeout", f"{TRIAL_SECONDS}s",
         "--metric", r"peak GiB: ([\d.]+)", "--", sys.executable, "-c", MODEL, "{n}",
         str(LIMIT_GIB)],
        env=env, capture_output=True, text=True, timeout=WHOLE_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _runs(batch: int, env: dict[str, str]) -> bool:
    done = subprocess.run(
        [sys.executable, "-c", MODEL, str(batch), str(LIMIT_GIB)],
        env=env, capture_output=True, text=True, timeout=TRIAL_SECONDS,
    )  # fmt: skip
    if done.returncode and "out of memory" not in done.stderr:
        raise AssertionError(done.stderr[-2000:])
    return done.returncode == 0


def _need_torch() -> None:
    script = "import torch; raise SystemExit(not torch.cuda.is_available())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120)
    if done.returncode:
        raise SkippedError("torch with CUDA is not installed here")
