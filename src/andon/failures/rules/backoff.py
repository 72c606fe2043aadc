"""When to retry, and what is known about the failures so far."""

from msgspec import Struct

from andon.errors import AndonError


def doubled_seconds(times: int, first: float, most: float) -> float:
    """Returns a wait of `first`, doubled this many times, up to `most`."""
    return min(most, first * 2.0 ** min(times, 16))


class BackOff(Struct, frozen=True):
    """The wait between attempts: none after the first `at_once` failures, then doubled."""

    first_seconds: float = 1.0
    most_seconds: float = 60.0
    at_once: int = 1

    def seconds(self, failures: int) -> float:
        """Returns the wait after this many failures in a row."""
        late = failures - self.at_once
        return doubled_seconds(late - 1, self.first_seconds, self.most_seconds) if late > 0 else 0.0


class Failures(Struct, frozen=True):
    """The failures of one activity since it last succeeded; none while it works."""

    count: int = 0
    first: float = float("-inf")
    last: float = float("-inf")
    """When it began to fail and when it last did, on a monotonic clock."""
    trouble: AndonError | None = None
    since: float | None = None
    """When it began to fail; UTC."""

    def failed(self, trouble: AndonError, now: float, at: float) -> "Failures":
        """Returns the failures with one more, at `now` on the monotonic clock and `at` UTC."""
        first = self.first if self.count else now
        return Failures(
            self.count + 1, first, now, trouble, at if self.since is None else self.since
        )

    def is_other_reason(self, trouble: AndonError) -> bool:
        """Whether this failure is the first, or has another reason than the last one."""
        return self.trouble is None or self.trouble.reason != trouble.reason

    def due(self, back_off: BackOff) -> float:
        """Returns when the next attempt is due, on the monotonic clock."""
        return self.last + back_off.seconds(self.count)
