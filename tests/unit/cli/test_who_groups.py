"""`andon who --by group`: a row for each group of the policy or of the system."""

import json

import pytest
from msgspec.structs import replace

from andon.cli.main import run
from andon.errors import Unavailable
from andon.leases.policy_file import group_of
from andon.leases.rules.policy import NO_POLICY, GroupLimits, Policy
from andon.model.device import Process
from tests.support import snapshots as golden
from tests.support.fake_node import FakeNode
from tests.support.replaced import answers
from tests.support.rows import rows

POLICY = Policy("p", groups={"vision": GroupLimits({}, frozenset(["ada", "bob"]))})


def node() -> FakeNode:
    seen = golden.farm()
    first, second, *rest = seen.devices
    first = replace(first, processes=(Process(1, user="ada", memory_bytes=1 << 30),))
    second = replace(
        second,
        processes=(
            Process(2, user="bob", memory_bytes=1 << 30),
            Process(3, user="nobody_known", memory_bytes=1 << 20),
        ),
    )
    others = tuple(replace(one, processes=()) for one in rest)
    return FakeNode(replace(seen, devices=(first, second, *others)))


@rows("policy, user, group", [
    (POLICY, "ada", "vision"),
    (POLICY, "nobody_known", ""),
    (NO_POLICY, "ada", ""),
    (Policy("p", groups={"daemon": GroupLimits({})}), "daemon", "daemon"),
])  # fmt: skip
def test_the_group_of_a_user(policy: Policy, user: str, group: str) -> None:
    assert group_of(policy, user) == group


def test_members_share_a_row_and_those_of_no_group_have_a_dash(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(monkeypatch, "andon.cli.commands.share.who", "policy_state", (POLICY, None))
    assert run(["who", "--by", "group"], node()) == 0
    text = capsys.readouterr().out
    assert text.startswith("GROUP")
    assert "no group that is known here" in text
    assert "ada" not in text
    assert run(["who", "--by", "group", "--json"], node()) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["by"] == "group"
    found = {one["user"]: (one["devices"], one["memory_bytes"]) for one in value["users"]}
    assert found == {"vision": ([0, 1], 2 << 30), "–": ([1], 1 << 20)}


def test_a_policy_that_cannot_be_read_is_said_and_the_system_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(
        monkeypatch,
        "andon.cli.commands.share.who",
        "policy_state",
        (NO_POLICY, Unavailable("it is broken")),
    )
    assert run(["who", "--by", "group"], node()) == 0
    assert "groups are those of the system: it is broken" in capsys.readouterr().err
