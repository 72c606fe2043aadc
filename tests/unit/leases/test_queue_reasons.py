"""Why each place in the queue waits, in words that say nothing of programs."""

from andon.leases.rules.queue_reasons import queue_reasons
from andon.model.lease_list import LeaseList, WaitingRow
from andon.model.verdict import DeviceVerdict, VerdictKind
from tests.support.rows import rows

Kinds = tuple[tuple[VerdictKind, str | None], ...]
FREE: tuple[VerdictKind, str | None] = (VerdictKind.FREE, None)


def held(user: str) -> tuple[VerdictKind, str | None]:
    return VerdictKind.HELD, user


@rows(
    ("devices", "places", "said"),
    [
        ((), [("alice", 1)], ["1 GPU requested"]),
        ((), [("alice", 1), ("bob", 2)], ["1 GPU requested", "behind alice"]),
        ((held("bob"),) * 4, [("alice", 1)], ["1 GPU requested, 0 free: bob has them"]),
        ((held("bob"), FREE), [("alice", 2)], ["2 GPUs requested, 1 free: bob has the others"]),
        (
            (held("bob"), held("carol")), [("alice", 2), ("dan", 1)],
            ["2 GPUs requested, 0 free: bob and carol have them",
             "1 GPU requested, 0 free: bob and carol have them; behind alice"],
        ),
        ((FREE, held("x")), [("a", 2), ("b", 1)],
         ["2 GPUs requested, 1 free: x has the others", "behind a"]),
        (
            tuple(held(name) for name in "abcde"), [("z", 1)],
            ["1 GPU requested, 0 free: a, b, c and 2 more have them"],
        ),
        (((VerdictKind.WITHHELD, None),), [("z", 1)], ["1 GPU requested, 0 free"]),
        ((FREE,), [("z", 1)], ["1 GPU requested, 1 free"]),
    ],
)  # fmt: skip
def test_each_place_says_what_it_waits_for(
    devices: Kinds, places: list[tuple[str, int]], said: list[str]
) -> None:
    found = LeaseList(
        0.0,
        devices=tuple(
            DeviceVerdict(str(n), n, str(n), kind, by=by) for n, (kind, by) in enumerate(devices)
        ),
        waiting=tuple(
            WaitingRow(n, user, gpus, None, 0.0, 0) for n, (user, gpus) in enumerate(places, 1)
        ),
    )
    assert queue_reasons(found) == said
