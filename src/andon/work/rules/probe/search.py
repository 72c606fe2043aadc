"""Which size is tried next: doubling up to the first failure, then bisecting to 1/16."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from andon.errors import Invalid
from andon.model.probe import Trial, TrialState

CLOSENESS = 16
"""The search ends where the smallest size that fails is at most 1/16 above the largest that
fits."""
LARGEST_SIZE = 10**12


class Search(Struct, frozen=True):
    """The state of a search. What fits is assumed to fit at every smaller size too."""

    low: int
    high: int
    fits: int | None = None  # the largest that did
    fails: int | None = None  # the smallest that did not

    @property
    def complete(self) -> bool:
        return self.next_size() is None

    def next_size(self) -> int | None:
        """Returns the next size; None when the search is over."""
        if self.fits is None:
            return None if self.fails is not None else self.low
        if self.fails is None:
            return None if self.fits >= self.high else min(2 * self.fits, self.high)
        gap = self.fails - self.fits
        if gap <= 1 or gap * CLOSENESS <= self.fits:
            return None
        return self.fits + gap // 2

    def after(self, size: int, fits: bool) -> "Search":
        """Returns the search with the result of a trial."""
        if fits:
            return replace(self, fits=max(self.fits or size, size))
        return replace(self, fails=min(self.fails or size, size))


def begin_search(low: int, high: int) -> Search:
    """A search from `low` to `high`; Invalid if there is nothing between them."""
    if low < 1 or high > LARGEST_SIZE:
        wrong = low if low < 1 else high
        raise Invalid(f"{wrong} is not a size", hint=f"use 1 to {LARGEST_SIZE}")
    if low > high:
        raise Invalid(
            f"the smallest size ({low}) is above the largest ({high})", hint="swap --min and --max"
        )
    return Search(low, high)


def searched(search: Search, trials: Iterable[Trial]) -> Search:
    """Returns the search after these trials; those that decide nothing are left out."""
    for trial in trials:
        if trial.state.decides:
            search = search.after(trial.size, trial.state is TrialState.FITS)
    return search


def recommended(largest: int, low: int, margin_percent: float) -> int:
    """The largest less a margin, and never below the smallest that was tried."""
    return max(low, int(largest * (100.0 - margin_percent) / 100.0 + 1e-9))


def check_margin(percent: float) -> float:
    if not 0.0 <= percent < 100.0:
        raise Invalid(f"a margin of {percent:g} % makes no sense", hint="use 0 to 99")
    return percent
