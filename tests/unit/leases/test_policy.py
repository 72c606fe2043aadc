"""Root's limits per user: how they are read, what they refuse, and that real grants keep them."""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.errors import AndonError, Conflict, Denied, Invalid, Unavailable
from andon.host.users import user_name
from andon.leases import releaser
from andon.leases.availability import Availability
from andon.leases.book.lease_book import Book
from andon.leases.granter import Granter, LeaseTerms, Progress
from andon.leases.policy_file import read_policy
from andon.leases.rules.policy import NO_POLICY, GroupLimits, Policy, UserLimits, policy_from
from andon.model.device import Snapshot
from andon.units import parse_seconds
from tests.support.rows import rows
from tests.support.sharing_parts import gpu, request, ticket

PATH = "/etc/andon/policy.toml"
TEXT = """
max_gpus_per_user = 2
max_time = "12h"
max_queued = 20

[users.alice]
max_gpus_per_user = 8

[users."1234"]
max_time = "unlimited"
"""


def test_a_users_own_section_changes_only_what_it_names() -> None:
    policy = policy_from(TEXT, PATH)
    assert policy.limits_of("bob", 7) == UserLimits(2, 43_200.0, 20, "bob", PATH)
    assert policy.limits_of("alice", 8) == UserLimits(8, 43_200.0, 20, "alice", PATH)
    assert policy.limits_of("carol", 1234) == UserLimits(2, None, 20, "carol", PATH)
    assert policy.everyone.text == "at most 2 GPUs, 12 h a lease, 20 waiting"
    assert NO_POLICY.limits_of("bob", 7) == UserLimits(user="bob")


def test_all_mistakes_are_named_at_once_with_their_lines() -> None:
    text = 'max_gpus = 1\nmax_time = 12\n[users.alice]\nmax_queued = -1\nmax_time = "0s"\n'
    with pytest.raises(Invalid) as wrong:
        policy_from(text, PATH)
    found = wrong.value.mistakes
    assert [line.split(": ")[0].rpartition(":")[2] for line in found] == ["1", "2", "4", "5"]
    assert "there is no limit 'max_gpus'; use max_gpus_per_user, max_queued, max_r" in found[0]
    assert 'write "12h"' in found[1]


@pytest.mark.parametrize("text", ["a b", "users = 3", "[users]\nalice = 3", 'max_time = "x"'])
def test_nonsense_is_a_mistake(text: str) -> None:
    with pytest.raises(Invalid):
        policy_from(text, PATH)


@rows("typed, seconds", [
    ("59s", ...), ("1m", 60.0), ("7d", 604_800.0), ("169h", ...), ("unlimited", None), ("0s", ...),
])  # fmt: skip
def test_how_long_an_unused_reservation_is_kept_is_from_a_minute_to_a_week(
    typed: str, seconds: object
) -> None:
    text = f'max_reserved_unused = "{typed}"'
    if seconds is ...:
        with pytest.raises(Invalid, match=r"max_reserved_unused: (from 1m to 7d|must be longer)"):
            policy_from(text, PATH)
        return
    assert policy_from(text, PATH).limits_of("bob", 7).max_reserved_unused == seconds


@pytest.mark.parametrize(
    ("longest", "typed"),
    [(43200.0, "12h"), (2592000.0, "30d"), (5400.0, "1h30min"), (6030.0, "6030s")],
)
def test_the_hint_names_the_longest_time_as_the_option_takes_it(longest: float, typed: str) -> None:
    with pytest.raises(Denied) as error:
        UserLimits(max_time=longest).check_terms(1, longest + 60)
    assert (error.value.hint or "").startswith(f"use --for {typed} or less")
    assert parse_seconds(typed) == longest


def test_every_refusal_names_the_file_and_the_limit() -> None:
    limits = UserLimits(2, 3600.0, 3, "eve", PATH)
    refused: dict[str, Callable[[], None]] = {
        "2 GPUs at a time; 3 GPUs requested": lambda: limits.check_terms(3, None),
        "leases of at most 1 h; 2 h requested": lambda: limits.check_terms(1, 7200.0),
        "3 waiting at a time; 3 wait already": lambda: limits.check_queued(3),
        "it would last 1 h 30 min": lambda: limits.check_extension(3600.0, 1800.0),
    }
    for words, call in refused.items():
        with pytest.raises(Denied) as error:
            call()
        assert words in error.value.reason
        assert error.value.reason.startswith(f"{PATH} allows eve ")
        assert error.value.cause == "policy"
    limits.check_terms(2, 3600.0)
    limits.check_queued(2)
    UserLimits().check_queued(10**6)
    limits.check_extension(1800.0, 1800.0)
    assert limits.over_limit(1, 1) is None
    assert "you hold 1 GPU" in (limits.over_limit(1, 2) or "")


# With a real book.


def granter(book: Book, limits: UserLimits) -> Granter:
    statuses = tuple(gpu(i) for i in range(4))
    seen = Availability(lambda: Snapshot("n", 1.0, devices=statuses))
    return Granter(book, seen, lambda: Policy(PATH, limits))


def test_a_user_gets_no_more_devices_than_allowed(book: Book) -> None:
    ours = granter(book, UserLimits(max_gpus_per_user=2))
    with pytest.raises(Denied):
        ours.grant(request(3), LeaseTerms(), 0.0)
    with pytest.raises(Denied, match="4 GPUs requested"):
        ours.grant(request(1, every=True), LeaseTerms(), 0.0)
    first = ours.grant(request(1), LeaseTerms(), 0.0)
    second = ours.grant(request(1, most=4), LeaseTerms(), 0.0)
    assert len(second.held.lease.shares) == 1, "of one to four, as many as are left"
    with pytest.raises(Conflict) as refused:
        ours.grant(request(1), LeaseTerms(), 0.0)
    reason = "you hold 2 GPUs, and /etc/andon/policy.toml allows you 2 GPUs at a time"
    assert (refused.value.reason, refused.value.hint) == (
        reason,
        "release one of yours: andon leases",
    )
    first.held.release()
    third = ours.grant(request(1), LeaseTerms(), 0.0)
    for grant in (second, third):
        grant.held.release()


def test_who_is_at_the_limit_waits_outside_the_line(book: Book) -> None:
    """A ticket would keep devices from others that its owner may not take."""
    ours = granter(book, UserLimits(max_gpus_per_user=1))
    held = ours.grant(request(1), LeaseTerms(), 0.0)
    lines: list[int] = []

    def waiting(progress: object) -> None:
        lines.append(len(book.waiting()))
        held.held.release()

    later = ours.grant(request(1), LeaseTerms(), 30.0, waiting)
    assert lines[0] == 0
    later.held.release()


def test_a_lease_ends_when_the_policy_says(book: Book) -> None:
    ours = granter(book, UserLimits(max_time=60.0))
    with pytest.raises(Denied, match="leases of at most 1 min"):
        ours.grant(request(1), LeaseTerms(seconds=61.0), 0.0)
    for terms in (
        LeaseTerms(),
        LeaseTerms(seconds=8 * 3600.0, usual=True),
        LeaseTerms(seconds=60.0),
    ):
        grant = ours.grant(request(1), terms, 0.0)
        lease = grant.held.lease
        assert lease.until is not None
        assert round(lease.until - lease.since) == 60
        grant.held.release()


def test_too_many_in_line_are_refused(book: Book) -> None:
    held = granter(book, UserLimits()).grant(request(4), LeaseTerms(), 0.0)
    with pytest.raises(Denied, match="0 waiting at a time"):
        granter(book, UserLimits(max_queued=0)).grant(request(1), LeaseTerms(), 30.0)
    with pytest.raises(Conflict):
        granter(book, UserLimits(max_queued=0)).grant(request(1), LeaseTerms(), 0.0)
    held.held.release()


def test_those_who_wait_for_others_do_not_count_for_a_user(book: Book) -> None:
    """A server of root waits for all its callers, whose leases are theirs."""
    held = granter(book, UserLimits()).grant(request(4), LeaseTerms(), 0.0)
    waiting = book.write_ticket(ticket("t1", since=time.time()))
    ours, other = granter(book, UserLimits(max_queued=1)), LeaseTerms(uid=os.getuid() + 1)

    def enough(progress: Progress) -> None:
        assert progress.queued
        raise InterruptedError

    with pytest.raises(InterruptedError):
        ours.grant(request(1), other, 30.0, enough)
    with pytest.raises(Denied, match="1 waiting at a time; 1 wait already"):
        ours.grant(request(1), LeaseTerms(), 30.0)
    waiting.release()
    held.held.release()


# The file.


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "etc" / "policy.toml"
    path.parent.mkdir(mode=0o755)
    return path


def policy_of(file: Path) -> Callable[[], Policy]:
    """What a file says that whoever runs the test may write."""
    return partial(read_policy, file, os.getuid())


def test_no_file_is_no_limit(file: Path) -> None:
    assert policy_of(file)() is NO_POLICY


def test_a_file_that_is_not_roots_alone_grants_nothing(file: Path, book: Book) -> None:
    file.write_text(TEXT)
    file.chmod(0o644)
    assert policy_of(file)().everyone.max_gpus_per_user == 2

    def to_pipe() -> None:
        file.unlink()
        os.mkfifo(file)

    spoiled: dict[str, Callable[[], object]] = {
        "group": lambda: file.chmod(0o664),
        "folder": lambda: file.parent.chmod(0o777),
        "nonsense": lambda: file.write_text("max_time = 3"),
        "bytes": lambda: file.write_bytes(b"\xff"),
        "a pipe": to_pipe,
    }
    for name, spoil in spoiled.items():
        if file.is_file():
            file.write_text(TEXT)
            file.chmod(0o644)
        file.parent.chmod(0o755)
        spoil()
        with pytest.raises(Unavailable) as refused:
            policy_of(file)()
        assert str(file.parent) in refused.value.reason, name
        assert refused.value.hint, name
        says = "no device is granted" in refused.value.reason
        assert says is (name in ("group", "folder", "nonsense")), name
    look = Availability(lambda: Snapshot("n", 1.0))
    with pytest.raises(AndonError, match=r"policy\.toml cannot be read"):
        Granter(book, look, policy_of(file)).grant(request(1), LeaseTerms(), 0.0)


def test_a_link_is_not_followed(file: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text(TEXT)
    file.symlink_to(tmp_path / "mine")
    with pytest.raises(Unavailable):
        policy_of(file)()


def test_an_extension_is_limited_too(file: Path, book: Book) -> None:
    file.write_text('max_time = "10m"')
    file.chmod(0o644)
    statuses = tuple(gpu(i) for i in range(4))
    seen = Availability(lambda: Snapshot("n", 1.0, devices=statuses))
    policy = policy_of(file)
    grant = Granter(book, seen, policy).grant(request(1), LeaseTerms(), 0.0)
    releaser.extend(book, grant.held.lease.id, 300.0, policy=policy)
    with pytest.raises(Denied, match=f"allows {user_name(os.getuid())} leases of at most 10 min"):
        releaser.extend(book, grant.held.lease.id, 601.0, policy=policy)
    grant.held.release()


GROUPS = """
max_gpus_per_user = 2
[users.alice]
max_gpus_per_user = 8
[groups.vision]
members = ["bob", "alice"]
max_gpus_per_user = 4
max_gpus_per_group = 5
[groups.speech]
max_time = "1h"
"""


@pytest.mark.parametrize(
    ("user", "system", "most", "group"),
    [
        ("bob", (), 4, "vision"),
        ("alice", (), 8, "vision"),
        ("carol", ("speech",), 2, "speech"),
        ("carol", ("vision",), 2, ""),  # its members are listed
        ("bob", ("speech",), 4, "vision"),  # the first one counts
    ],
)
def test_limits_of_a_group_are_between_everyones_and_ones_own(
    user: str, system: tuple[str, ...], most: int, group: str
) -> None:
    found = policy_from(GROUPS, PATH).limits_of(user, 7, system)
    assert (found.max_gpus_per_user, found.group) == (most, group)


def test_a_group_has_a_limit_of_its_own_for_all_members_together() -> None:
    bob = policy_from(GROUPS, PATH).limits_of("bob", 7)
    assert bob.over_limit(1, 2, of_group=3) is None
    assert bob.room(1, 3) == 2
    assert bob.room(0, 9) == 0
    assert bob.over_limit(1, 3, of_group=3) == (
        "group vision holds 3 GPUs, and /etc/andon/policy.toml allows it 5 GPUs at a time"
    )
    with pytest.raises(Denied, match="the others of group vision 5 GPUs at a time"):
        replace(bob, max_gpus_per_user=None).check_terms(6, None)


@pytest.mark.parametrize(
    "text",
    ["groups = 3", "[groups]\na = 3", '[groups.a]\nmembers = "bob"', "[groups.a]\nnothing = 3",
     "max_gpus_per_group = 3", "[users.bob]\nmax_gpus_per_group = 3"],
)  # fmt: skip
def test_nonsense_about_groups_is_a_mistake(text: str) -> None:
    with pytest.raises(Invalid):
        policy_from(text, PATH)


def test_real_grants_keep_the_limit_of_a_group(book: Book) -> None:
    own = frozenset([user_name(os.getuid())])
    policy = Policy(PATH, groups={"vision": GroupLimits({"max_gpus_per_group": 3}, own)})
    seen = Availability(lambda: Snapshot("n", 1.0, devices=tuple(map(gpu, range(4)))))
    ours = Granter(book, seen, lambda: policy)
    held = [ours.grant(request(2), LeaseTerms(), 0.0)]
    with pytest.raises(Conflict, match="group vision holds 2 GPUs") as refused:
        ours.grant(request(2), LeaseTerms(), 0.0)
    assert "yours" not in refused.value.hint
    held.append(ours.grant(request(1, most=4), LeaseTerms(), 0.0))
    assert len(held[1].held.lease.shares) == 1, "as many as are left to the group"
    for grant in held:
        grant.held.release()
