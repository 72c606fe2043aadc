"""How a prolog ends: Slurm drains a node whose prolog fails, so it fails for broken cards alone."""

from collections.abc import Sequence

from andon.model.check import CardResult


def broken(results: Sequence[CardResult], drain_if: Sequence[str] = ()) -> list[CardResult]:
    """Returns the results for which the node is drained; a site may add verdicts."""
    return [one for one in results if one.verdict.is_broken or str(one.verdict) in drain_if]


def exit_code(results: Sequence[CardResult], drain_if: Sequence[str] = ()) -> int:
    return 1 if broken(results, drain_if) else 0


def reason(results: Sequence[CardResult]) -> str:
    """Returns the reason by which the node is drained."""
    return "andon check: " + "; ".join(f"GPU {one.label}: {one.text}" for one in results)[:200]
