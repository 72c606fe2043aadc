"""People whom a proxy names: believed from its address alone, and only what is said once."""

import pytest

from andon.access.proxies import ProxyRules, proxied, proxy_rules
from andon.access.roles import Role
from andon.errors import Invalid

PROXY = "10.0.0.7"
RULES = proxy_rules(PROXY, ["ops:operate", "a:b:admin", "staff:read"])
EVERYONE = proxy_rules(PROXY, ["*:read", "ops:admin"])


@pytest.mark.parametrize(
    ("rules", "peer", "users", "groups", "role"),
    [
        (RULES, PROXY, ["ada"], ["ops"], Role.OPERATE),
        (RULES, PROXY, ["ada"], ["staff, ops"], Role.OPERATE),
        (RULES, PROXY, ["ada"], ["a:b"], Role.ADMIN),
        (EVERYONE, PROXY, ["ada"], [], Role.READ),
        (EVERYONE, PROXY, ["ada"], ["ops"], Role.ADMIN),
        (None, PROXY, ["ada"], ["ops"], None),  # no proxy is set
        (RULES, "10.0.0.8", ["ada"], ["ops"], None),  # a stranger
        (RULES, "127.0.0.1", ["ada"], ["ops"], None),
        (RULES, None, ["ada"], ["ops"], None),
        (RULES, PROXY, [], ["ops"], None),
        (RULES, PROXY, ["ada", "eve"], ["ops"], None),  # whose header is whose?
        (RULES, PROXY, ["ada"], ["staff", "ops"], None),
        (RULES, PROXY, [""], ["ops"], None),
        (RULES, PROXY, ["a\nb"], ["ops"], None),
        (RULES, PROXY, ["a" * 201], ["ops"], None),
        (RULES, PROXY, ["ada"], ["nobody"], None),
        (RULES, PROXY, ["ada"], [], None),
    ],
)
def test_who_a_request_is_from(
    rules: ProxyRules | None, peer: str | None, users: list[str], groups: list[str],
    role: Role | None,
) -> None:  # fmt: skip
    found = proxied(rules, peer, users, groups)
    assert (None if found is None else found.role) is role
    if found is not None:
        assert (found.user, found.uid) == ("proxy ada", None), "no account has such a name"


@pytest.mark.parametrize(
    ("address", "roles", "words"),
    [
        ("proxy.lab", [], "not an address"),
        (PROXY, ["ops"], "not a role of a group"),
        (PROXY, ["ops:owner"], "not a role of a group"),
        (PROXY, [":read"], "not a role of a group"),
    ],
)
def test_settings_that_mean_nothing_are_refused(address: str, roles: list[str], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        proxy_rules(address, roles)


def test_without_an_address_there_is_no_proxy() -> None:
    assert proxy_rules("", ["*:admin"]) is None
