"""Small models and slow data for the tests."""

import time
from typing import Any

import torch


class TinyModel(torch.nn.Module):
    """Returns a loss, slowly."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def forward(self, input_ids: Any, labels: Any) -> dict[str, Any]:
        time.sleep(0.03)
        found = self.layer(input_ids.float()).squeeze(-1)
        return {"loss": ((found - labels) ** 2).mean(), "logits": found}


class SlowItems(torch.utils.data.Dataset):
    """Items that take 2 ms each; they may fail."""

    def __init__(self, count: int, fails: bool = False) -> None:
        self.count, self.fails = count, fails

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: int) -> dict[str, Any]:
        time.sleep(0.002)
        if self.fails:
            raise RuntimeError("no item")
        return {"input_ids": torch.ones(8, dtype=torch.long), "labels": torch.tensor(1.0)}
