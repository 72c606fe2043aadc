"""When a cluster is polled again, and how long one answer is used."""

from andon.failures.rules.backoff import BackOff

FRESH_SECONDS = 5.0
"""A cluster is polled no more often than this."""
UNWATCHED_SECONDS = 60.0
"""Between two polls while nobody reads the answers."""
UNCONFIRMED_SECONDS = 10.0
"""A submission may be on its way for so long, also one whose client was killed: until then nobody
is told to submit it again."""
WATCHED_SECONDS = 30.0
"""Who has read the answer this recently may read it again."""
SHARE = 10
"""A slow cluster is not polled for this many times as long as its answer took."""
PAST_SECONDS = 86_400.0
"""Jobs that ended this long ago are still listed."""
BACK_OFF = BackOff(FRESH_SECONDS, UNWATCHED_SECONDS, at_once=0)


def wait_seconds(took_seconds: float, unwatched_seconds: float, failures: int) -> float:
    """Returns the wait until the next poll, from how long the last answer took, how long ago
    somebody read it, and how many polls in a row had no answer."""
    calm = FRESH_SECONDS if unwatched_seconds <= WATCHED_SECONDS else UNWATCHED_SECONDS
    slow = min(UNWATCHED_SECONDS, SHARE * took_seconds)
    return max(calm, slow, BACK_OFF.seconds(failures))


def is_fresh(tried: float, now: float, seconds: float = FRESH_SECONDS) -> bool:
    """Whether the cluster was asked so recently that it is not asked again; both UTC."""
    return 0.0 <= now - tried < seconds
