"""What the explanations of use share: whether work has settled, and whether users compete."""

from andon.explain.evidence.view import View

SETTLED_SECONDS = 60.0
COMPETING_PERCENT = 80
PART_PERCENT = 5


def settled(view: View) -> bool:
    """Whether a process has had time to start: loading is not idling."""
    ages = [0.0 if p.started is None else p.started for p in view.compute]
    return any(view.at - began >= SETTLED_SECONDS for began in ages)


def competing(view: View) -> bool:
    """Whether several users compete for its time."""
    return len(active_users(view)) > 1 and view.at_least("utilization_percent", COMPETING_PERCENT)


def active_users(view: View) -> list[tuple[str, int]]:
    """The users that keep it busy, and how much each does."""
    return [one for one in parts(view, "utilization_percent") if one[1] >= PART_PERCENT]


def parts(view: View, name: str) -> list[tuple[str, int]]:
    """Returns how much each known user uses, the most first."""
    found: dict[str, int] = {}
    for process in view.compute:
        value = getattr(process, name)
        if process.user is not None and value is not None:
            found[process.user] = found.get(process.user, 0) + value
    return sorted(found.items(), key=lambda part: (-part[1], part[0]))
