"""Estimates against PyTorch: the weights, the cache and the peaks of training of a real model."""

import json
import subprocess
import sys
from typing import Any

from andon.estimate.rules.options import EstimateOptions, ServingEngine, TrainingPrecision
from andon.estimate.rules.serving import CONTEXT_BYTES, kv_bytes
from andon.estimate.rules.shape import (
    EstimateConfidence,
    FactSource,
    ModelFacts,
    ModelShape,
    WeightFormat,
)
from andon.estimate.rules.training import training_need
from andon.estimate.rules.weights import parameters, weights_bytes
from andon.units import MIB
from tests.device.scenes import Scene, SkippedError

LIMIT_SECONDS = 240.0
SHAPE = ModelShape("llama", 16, 2048, 32, 8, 64, 8192, 32000)  # 1.1 billion parameters
CACHED_TOKENS, SEQUENCE = 4096, 1024
WEIGHTS_WITHIN, CACHE_WITHIN, PEAK_WITHIN = 0.01, 0.03, 0.15
CASES = [
    {"precision": str(precision), "checkpointing": checkpointing, "batch": batch}
    for precision in TrainingPrecision
    for checkpointing in (False, True)
    for batch in (1, 4)
]

PROGRAM = """
import gc, json, sys
from contextlib import nullcontext
try:
    import torch
except ImportError as missing:
    sys.exit(f"cannot compute here: {missing}")
if not torch.cuda.is_available():
    sys.exit("cannot compute here: torch sees no CUDA device")
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

asked = json.loads(sys.argv[1])
V, H, L, NH, NKV, HD, I = (asked[n] for n in ("vocab", "hidden", "layers", "heads", "kv", "dim", "inner"))
BF16 = torch.bfloat16


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(H))

    def forward(self, x):
        y = x.to(torch.float32)
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * y.to(x.dtype)


def turned(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def linear(a, b):
    return nn.Linear(a, b, bias=False)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = Norm(), Norm()
        self.q, self.k, self.v, self.o = linear(H, NH * HD), linear(H, NKV * HD), linear(H, NKV * HD), linear(NH * HD, H)
        self.gate, self.up, self.down = linear(H, I), linear(H, I), linear(I, H)

    def forward(self, x, cos, sin, cache=None):
        B, S, _ = x.shape
        h = self.before(x)
        q, k, v = (one(h).view(B, S, -1, HD).transpose(1, 2) for one in (self.q, self.k, self.v))
        cos, sin = cos.to(q.dtype), sin.to(q.dtype)
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        if cache is not None:
            cache.append((k.contiguous(), v.contiguous()))
        k, v = (one.repeat_interleave(NH // NKV, 1) for one in (k, v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(B, S, -1))
        h = self.between(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.last, self.head = nn.Embedding(V, H), Norm(), linear(H, V)
        self.layers = nn.ModuleList(Layer() for _ in range(L))

    def forward(self, ids, cos, sin, checkpointing=False, cache=None):
        x = self.words(ids)
        for layer in self.layers:
            if checkpointing:
                x = checkpoint(layer, x, cos, sin, use_reentrant=False)
            else:
                x = layer(x, cos, sin, cache)
        if cache is not None:
            return None
        logits = self.head(self.last(x))
        return F.cross_entropy(logits.float().view(-1, V), ids.view(-1))


def built(kind):
    with torch.device("cuda"):
        return Llama().to(kind)


def angles(tokens):
    speed = 1 / 10000 ** (torch.arange(0, HD, 2, device="cuda").float() / HD)
    angle = torch.outer(torch.arange(tokens, device="cuda").float(), speed)
    angle = torch.cat((angle, angle), -1)
    return angle.cos(), angle.sin()


def clear():
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.synchronize()


def served():
    before = torch.cuda.memory_allocated()
    model = built(BF16)
    weights = torch.cuda.memory_allocated() - before
    ids = torch.randint(0, V, (1, asked["cached_tokens"]), device="cuda")
    cos, sin = angles(ids.shape[1])
    with torch.no_grad():
        model(ids[:, :16], cos[:16], sin[:16], cache=[])  # workspaces of the matrix library
        clear()
        before, cache = torch.cuda.memory_allocated(), []
        model(ids, cos, sin, cache=cache)
    clear()
    return {"weights": weights, "cache": torch.cuda.memory_allocated() - before}


def trained(case):
    model = built(BF16 if case["precision"] == "bf16" else torch.float32)
    adam = torch.optim.AdamW(model.parameters(), lr=1e-6)
    ids = torch.randint(0, V, (case["batch"], asked["sequence"]), device="cuda")
    cos, sin = angles(asked["sequence"])
    mixed = case["precision"] == "mixed"
    for step in range(3):
        if step == 1:  # the optimiser's states are there from now on
            torch.cuda.reset_peak_memory_stats()
        with torch.autocast("cuda", BF16) if mixed else nullcontext():
            loss = model(ids, cos, sin, case["checkpointing"])
        loss.backward()
        adam.step()
        adam.zero_grad(set_to_none=True)
        del loss
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


found = served()
clear()
free, total = torch.cuda.mem_get_info()
found["context"] = total - free - torch.cuda.memory_reserved()
found["version"] = torch.__version__
found["peaks"] = []
for case in asked["cases"]:
    found["peaks"].append(trained(case))
    clear()
print(json.dumps(found))
"""  # noqa: E501 - a program, and not one of ours to format


def an_estimate_agrees_with_what_pytorch_allocates(scene: Scene) -> str:
    """Every error is in the answer, also of what is within its limit."""
    measured = _measured()
    facts = ModelFacts(
        "llama", FactSource.CONFIG, EstimateConfidence.MEDIUM, SHAPE, parameters=parameters(SHAPE)
    )
    weights = weights_bytes(SHAPE, WeightFormat()) / measured["weights"] - 1
    cache = kv_bytes(SHAPE, CACHED_TOKENS, 16) / measured["cache"] - 1
    errors = {
        _named(case): _estimated(facts, case) / peak - 1
        for case, peak in zip(CASES, measured["peaks"], strict=True)
    }
    said = f"torch {measured['version']}: weights {weights:+.1%}, cache {cache:+.1%}; training "
    said += ", ".join(f"{name} {error:+.1%}" for name, error in errors.items())
    own = f"{CONTEXT_BYTES // MIB} MiB assumed, {measured['context'] // MIB} in use besides"
    said += f"; CUDA itself: {own}"
    assert abs(weights) <= WEIGHTS_WITHIN, said
    assert abs(cache) <= CACHE_WITHIN, said
    assert max(map(abs, errors.values())) <= PEAK_WITHIN, said
    return said


def _named(case: dict[str, Any]) -> str:
    kept = "recomputed" if case["checkpointing"] else "kept"
    return f"{case['precision']} {kept} x{case['batch']}"


def _estimated(facts: ModelFacts, case: dict[str, Any]) -> int:
    options = EstimateOptions(
        ServingEngine.TRAINING,
        precision=TrainingPrecision(case["precision"]),
        gradient_checkpointing=case["checkpointing"],
        batch=case["batch"],
        sequence=SEQUENCE,
    )
    return training_need(facts, options).minimum_bytes - CONTEXT_BYTES


def _measured() -> dict[str, Any]:
    asked = {
        "vocab": SHAPE.vocab, "hidden": SHAPE.hidden, "layers": SHAPE.layers,
        "heads": SHAPE.heads, "kv": SHAPE.kv_heads, "dim": SHAPE.head_dim,
        "inner": SHAPE.intermediate, "cached_tokens": CACHED_TOKENS, "sequence": SEQUENCE,
        "cases": CASES,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(asked)],
        capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False,
    )  # fmt: skip
    if "cannot compute here" in done.stderr:
        raise SkippedError(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
