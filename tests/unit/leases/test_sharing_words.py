"""What `who`, `leases`, `cordon` and refusals say: reasons for dashes, marks, and what helps."""

import pytest
from msgspec.structs import replace

from andon.cli.commands.share.cordon import cordoned_text
from andon.cli.commands.share.leases import _memory
from andon.cli.commands.share.who import (
    People,
    UserRow,
    _add_present,
    _columns,
    _remarks,
    _shows_use,
    _user,
)
from andon.history.rules.usage import UNKNOWN_USER, UserUsage
from andon.leases.availability import Candidates
from andon.leases.refusal import hint_of
from andon.leases.rules.choice import Candidate, DeviceChoice
from andon.leases.rules.eligibility import Obstacle, ObstacleKind
from andon.model.device import Snapshot
from andon.model.lease import LeaseKind, LeaseState, Need, Share
from andon.model.lease_list import LeaseList, LeaseRow
from andon.units import GIB
from tests.support.snapshots import farm

NODE = Snapshot("node7", 1.0)
USED = UserUsage("ada", 3600.0, 1.0, 0.5)
LEASE = LeaseRow(
    id="k7qm2", user="dora", whom=None, uid=1000, state=LeaseState.HELD, kind=LeaseKind.LIBRARY,
    devices=(Share("GPU-0", 0, 10 * GIB),), since=1.0, until=None, command=None, simulated=False,
    used_bytes=0, promised_bytes=10 * GIB, utilization_percent=None, fence=None, pid=7,
    releasable=True, not_releasable_reason=None,
)  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "recorded", "said"),
    [
        ([], False, []),
        ([UserRow("ada", days={"2026-11-15": USED})], True, []),
        ([UserRow("ada")], False, ["nothing is recorded here (andon serve records it)"]),
        (
            [UserRow("ada", days={"2026-11-15": USED}), UserRow("bob")],
            True,
            ["nothing recorded of this user"],
        ),
        (
            [UserRow(UNKNOWN_USER, days={"2026-11-15": USED})],
            True,
            ["owner is not visible from here"],
        ),
        ([UserRow("ada", memory_bytes=None, days={"2026-11-15": USED})], True, ["– memory: "]),
    ],
)
def test_every_dash_of_who_has_a_reason(
    rows: list[UserRow], recorded: bool, said: list[str]
) -> None:
    found = _remarks(NODE, rows, recorded)
    assert len(found) == len(said)
    assert all(words in remark for words, remark in zip(said, found, strict=True))


@pytest.mark.parametrize(("width", "shown"), [(100, True), (30, False)])
def test_who_explains_no_dash_of_a_column_that_has_no_space(width: int, shown: bool) -> None:
    rows = [UserRow("ada")]
    assert _shows_use(rows, width, mixed=False) is shown
    assert bool(_remarks(NODE, rows, False, shown)) is shown


def test_who_says_on_which_gpus_a_lease_is() -> None:
    people, shares = People(), (Share("GPU-1", 1), Share("GPU-2", 2))
    held = LeaseList(1.0, (replace(LEASE, devices=shares), replace(LEASE, id=None, devices=())))
    _add_present(people, NODE, held)
    (dora,) = people.rows()
    assert dora.leases == ["k7qm2", "unreadable"]
    (cell,) = [column.cell(dora) for column in _columns(False) if column.title == "LEASES"]
    assert cell.plain == "k7qm2 (GPU 1,2) unreadable"


def test_memory_that_is_not_known_is_no_0_bytes() -> None:
    device = farm().devices[0]
    known = replace(device.processes[0], user="ada")
    both = replace(device, processes=(replace(known, memory_bytes=None), known))
    people = People()
    _add_present(people, replace(NODE, devices=(both,)), LeaseList(1.0))
    (ada,) = people.rows()
    assert ada.memory_bytes is None
    (cell,) = [column.cell(ada) for column in _columns(False) if column.title == "MEMORY"]
    assert cell.plain == "–"


def test_simulated_users_among_real_ones_are_marked() -> None:
    """V20: a seeded history must not look like people."""
    assert _user(UserRow("ada", simulated=True), mixed=True).plain == "ada SIMULATED"
    assert _user(UserRow("ada"), mixed=True).plain == "ada"
    assert _user(UserRow("ada", simulated=True), mixed=False).plain == "ada", "the heading says so"


@pytest.mark.parametrize(
    ("used", "promised", "said"),
    [
        (11 * GIB, 10 * GIB, "11.0 GiB of 10.0 GiB over"),
        (10 * GIB, 10 * GIB, "10.0 GiB of 10.0 GiB"),
        (11 * GIB, None, "11.0 GiB"),
    ],
)
def test_a_lease_that_uses_more_than_it_reserved_is_marked(
    used: int, promised: int | None, said: str
) -> None:
    assert _memory(replace(LEASE, used_bytes=used, promised_bytes=promised)).plain == said


def test_a_cordon_says_who_keeps_the_device() -> None:
    assert cordoned_text("GPU 7", None) == "GPU 7 is cordoned"
    held = cordoned_text("GPU 7", "dora")
    assert held == "GPU 7 is cordoned (dora keeps it until the lease ends)"


def refused(*kinds: ObstacleKind, reason: str | None = None) -> Candidates:
    devices = tuple(
        Candidate(f"GPU-{n}", n, None, None, None, Obstacle(kind, "x"))
        for n, kind in enumerate(kinds)
    )
    need = Need(frozenset(one.uuid for one in devices))
    return Candidates(NODE, need, DeviceChoice((), devices, reason))


@pytest.mark.parametrize(
    ("kinds", "hint"),
    [
        ((ObstacleKind.LEASED,), "andon leases"),
        ((ObstacleKind.UNLEASED_PROCESS,), "andon ps; --even-if-used"),
        ((ObstacleKind.BUSY, ObstacleKind.UNATTRIBUTED_MEMORY), "andon ps; --even-if-used"),
        ((ObstacleKind.BUSY, ObstacleKind.LEASED), "andon leases"),
        ((), ""),
    ],
)
def test_a_refusal_names_what_helps_against_what_is_in_the_way(
    kinds: tuple[ObstacleKind, ...], hint: str
) -> None:
    """V17: `andon leases` only where there is a lease."""
    assert hint in hint_of(refused(*kinds))
    assert ("andon leases" in hint_of(refused(*kinds))) == (ObstacleKind.LEASED in kinds)


def test_a_group_that_differs_too_much_says_what_allows_it_at_once() -> None:
    found = hint_of(refused(ObstacleKind.BUSY, reason="free memory differs too much for a group"))
    assert found == "--unbalanced allows different free memory"
