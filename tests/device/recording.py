"""Records of a real training loop: a command, a program and a callback agree with the counter."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from andon.model.run.record import RunBegin, RunEnd, RunLine, RunSample
from andon.runs.rules.lines import RecordLines
from andon.runs.rules.summary import RunTallies
from tests.conftest import REPOSITORY
from tests.device.scenes import Scene, SkippedError
from tests.device.sharing import book, environment_of
from tests.device.surfaces import COMMAND

LIMIT_SECONDS = 240.0
LOOP_SECONDS = 20
TRAINING = """
import json, sys, time
try:
    import pynvml, torch
except ImportError as missing:
    sys.exit(f"cannot compute here: {missing}")
if not torch.cuda.is_available():
    sys.exit("cannot compute here: torch sees no CUDA device")
import andon
from andon import GpuMonitorCallback

pynvml.nvmlInit()
card = pynvml.nvmlDeviceGetHandleByUUID(__import__("os").environ["CUDA_VISIBLE_DEVICES"])
joules = lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(card) / 1000
model = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(8)]).cuda()
adam = torch.optim.Adam(model.parameters(), 1e-5)
batch = torch.randn(8192, 4096, device="cuda")
with andon.run("program") as run:
    with GpuMonitorCallback(name="callback").with_interval_secs(10) as monitor:
        began, before, step = time.monotonic(), joules(), 0
        while time.monotonic() - began < 15:
            loss = (model(batch) - batch).square().mean()
            adam.zero_grad(); loss.backward(); adam.step()
            monitor.step(step, loss=loss.item())
            run.log(step=step, loss=loss.item())
            step += 1
        torch.cuda.synchronize()
        used = joules() - before
print(json.dumps({"joules": used, "steps": step}))
"""


def a_training_loop_is_recorded_alike_by_command_program_and_callback(scene: Scene) -> str:
    with book() as env:
        asked = [*COMMAND, "run", "--gpus", "1", "--name", "command", "--", sys.executable, "-c"]
        done = subprocess.run(
            [*asked, TRAINING], capture_output=True, text=True, timeout=LIMIT_SECONDS,
            env=environment_of(env), check=False,
        )  # fmt: skip
        if "cannot compute here" in done.stderr:
            raise SkippedError(done.stderr.strip().splitlines()[-1])
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout.splitlines()[-1])
        records = dict(_record(path) for path in Path(env["XDG_STATE_HOME"]).rglob("*.jsonl"))
    uses = {name: _only(_end(lines).summary) for name, lines in records.items()}
    shared = _on_the_span_of(records["command"], records["callback"])
    for name in ("program", "callback"):
        off = uses[name]["energy_joules"] / said["joules"] - 1
        assert abs(off) < 0.03, f"{name}: {off:+.1%} of the counter's {said['joules']:.0f} J"
        assert uses[name]["energy_source"] == "counter"
        for reading, most in (("utilization_percent", 5.0), ("temperature_celsius", 5.0)):
            _agree(name, reading, uses[name], shared, most)
        _agree(name, "power_watts", uses[name], shared, 0.05 * shared["power_watts"]["mean"])
    assert uses["command"]["idle_spells"]["source"] == "driver"
    busy = uses["callback"]["utilization_percent"]["mean"]
    return f"{said['steps']} steps, {said['joules']:.0f} J, {busy:.0f} % busy: all three agree"


def a_starved_loader_is_told_and_a_busy_loop_is_not(scene: Scene) -> str:
    with book() as env:
        starved, busy = (_advice(loop, env) for loop in ("starved", "training"))
    told = [one for one in starved if one["name"] == "starved_loader"]
    assert told, f"nothing of the loader in {starved}"
    assert "the loader starves it" in told[0]["words"], told
    assert not [one for one in busy if one["name"] == "starved_loader"], busy
    return str(told[0]["words"])


def _advice(loop: str, env: dict[str, str]) -> list[dict[str, Any]]:
    """What the report says of a loop of `bench.steady_loops`."""
    asked = ("run", "--gpus", "1", "--name", loop, "--", sys.executable, "-m", "bench.steady_loops",
             loop, "--seconds", str(LOOP_SECONDS))  # fmt: skip
    done = _andon(env, *asked)
    if "torch" in done.stderr and done.returncode != 0:
        raise SkippedError(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    report = _andon(env, "runs", "report", "last", "--format", "json")
    assert report.returncode == 0, report.stderr
    found: list[dict[str, Any]] = json.loads(report.stdout)["advice"]
    return found


def _andon(env: dict[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, timeout=LIMIT_SECONDS,
        env=environment_of(env), check=False, cwd=REPOSITORY,
    )  # fmt: skip


def _agree(
    name: str, reading: str, ours: dict[str, Any], theirs: dict[str, Any], most: float
) -> None:
    difference = ours[reading]["mean"] - theirs[reading]["mean"]
    assert abs(difference) <= most, f"{name}: {reading} {difference:+.1f} from the command's"


def _record(path: Path) -> tuple[str, list[RunLine]]:
    lines = list(RecordLines().feed(path.read_bytes()))
    assert isinstance(lines[0], RunBegin)
    return lines[0].name, lines


def _end(lines: list[RunLine]) -> RunEnd:
    assert isinstance(lines[-1], RunEnd), lines[-1]
    return lines[-1]


def _only(summary: Any) -> dict[str, Any]:
    [use] = summary.values()
    return dict(use)


def _on_the_span_of(outer: list[RunLine], inner: list[RunLine]) -> dict[str, Any]:
    """The outer record's samples of the time in which the inner one ran."""
    begin, end = inner[0], _end(inner)
    assert isinstance(begin, RunBegin)
    tallies = RunTallies(begin.devices, begin.at)
    for line in outer:
        if isinstance(line, RunSample) and begin.at <= line.at <= end.at:
            tallies.add(line)
    return _only(tallies.summary())
