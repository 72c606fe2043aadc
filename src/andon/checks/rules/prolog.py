"""How a prolog ends: Slurm drains a node whose prolog fails, so it fails for broken cards alone."""

from collections.abc import Sequence

from andon.model.check import CardResult, CheckVerdict

DRAIN_IF = {"slow": frozenset((CheckVerdict.SLOW,))}
"""What a site may add, by the word of `--drain-if`."""


def broken(results: Sequence[CardResult], drain_if: Sequence[str] = ()) -> list[CardResult]:
    """Returns the results for which the node is drained."""
    more = frozenset(verdict for word in drain_if for verdict in DRAIN_IF.get(word, ()))
    return [one for one in results if one.verdict.is_broken or one.verdict in more]


def exit_code(results: Sequence[CardResult], drain_if: Sequence[str] = ()) -> int:
    return 1 if broken(results, drain_if) else 0


def reason(results: Sequence[CardResult]) -> str:
    """Returns the reason by which the node is drained."""
    return "andon check: " + "; ".join(f"GPU {one.label}: {one.text}" for one in results)[:200]
