"""Three loops on one GPU, for `bench.steady_state`: training, inference, and a starved loader.

Needs torch with CUDA, which andon itself does not.
"""

import argparse
import importlib
import time
from collections.abc import Callable
from typing import Any

WIDTH, DEPTH, BATCH = 8192, 8, 4096
DECODE_BATCH = 8
STARVED_SHARE = 3.0  # how much longer the loader takes than the step
LOOPS = ("training", "inference", "starved")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("loop", choices=LOOPS)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    torch: Any = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise SystemExit("torch sees no CUDA device")
    steps = repeat(LOOP[given.loop](torch), given.seconds)
    print(f"{given.loop}: {steps / given.seconds:.2f} steps a second")


def repeat(step: Callable[[], None], seconds: float) -> int:
    count, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        step()
        count += 1
    return count


def training(torch: Any) -> Callable[[], None]:
    """A stack of large layers in bfloat16 with AdamW; its data is on the device already."""
    train = trainer(torch)
    data = torch.randn(BATCH, WIDTH, device="cuda", dtype=torch.bfloat16)
    return lambda: train(data)


def inference(torch: Any) -> Callable[[], None]:
    """Small batches through the same layers: reading the weights is most of the work."""
    model = stack(torch)
    asked = torch.randn(DECODE_BATCH, WIDTH, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        with torch.no_grad():
            for _ in range(50):
                model(asked)
        torch.cuda.synchronize()

    return step


def starved(torch: Any) -> Callable[[], None]:
    """The training step, with a loader that prepares each batch in one thread on the CPU."""
    train = trainer(torch)
    torch.set_num_threads(1)
    batch = torch.randn(BATCH, WIDTH, dtype=torch.bfloat16)
    train(batch.cuda())
    began = time.monotonic()
    train(batch.cuda())
    pause = STARVED_SHARE * (time.monotonic() - began)

    def step() -> None:
        until = time.monotonic() + pause
        while time.monotonic() < until:  # work, as decoding and augmenting is
            batch[:64].float().sort()
        train(batch.cuda())

    return step


def trainer(torch: Any) -> Callable[[Any], None]:
    model = stack(torch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def train(data: Any) -> None:
        loss = model(data).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()

    return train


def stack(torch: Any) -> Any:
    layers = []
    for _ in range(DEPTH):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU()]
    return torch.nn.Sequential(*layers).to("cuda", torch.bfloat16)


LOOP = {"training": training, "inference": inference, "starved": starved}

if __name__ == "__main__":
    main()
