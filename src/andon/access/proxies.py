"""Users whom a proxy in front of the server has signed in, such as one for OpenID Connect.

The proxy names them in headers. Anyone can send such headers: they are believed only from the
address that the settings name, and only if each is there once.
"""

import ipaddress
from collections.abc import Sequence

from msgspec import Struct

from andon.access.roles import Identity, Role
from andon.errors import Invalid

USER_HEADER, GROUPS_HEADER = b"x-forwarded-user", b"x-forwarded-groups"
EVERYONE = "*"
RANKED = (Role.READ, Role.OPERATE, Role.ADMIN)
_LONGEST = 200


class ProxyRules(Struct, frozen=True):
    """The address of the proxy, and the role of each group."""

    address: str
    roles: tuple[tuple[str, Role], ...]


def proxy_rules(address: str, roles: Sequence[str]) -> ProxyRules | None:
    """Returns the settings' rules; None without a proxy. Raises Invalid for wrong values."""
    if not address:
        return None
    try:
        place = str(ipaddress.ip_address(address))
    except ValueError as exc:
        raise Invalid(
            f"server.proxy is not an address: {address[:60]!r}", hint="such as 10.0.0.7"
        ) from exc
    found = list[tuple[str, Role]]()
    for one in roles:
        group, _, role = one.rpartition(":")
        if not group or role not in RANKED:
            hint = "GROUP:ROLE, with the role read, operate or admin"
            raise Invalid(f"server.proxy_roles: {one[:60]!r} is not a role of a group", hint=hint)
        found.append((group, Role(role)))
    return ProxyRules(place, tuple(found))


def proxied(
    rules: ProxyRules | None, peer: str | None, users: Sequence[str], groups: Sequence[str]
) -> Identity | None:
    """Returns the user that the proxy's headers name; None if they name nobody or the request did
    not come from the proxy."""
    if rules is None or peer != rules.address or len(users) != 1 or len(groups) > 1:
        return None
    name = users[0].strip()
    if not name or len(name) > _LONGEST or not name.isprintable():
        return None
    own = {one.strip() for text in groups for one in text.split(",")} | {EVERYONE}
    held = [role for group, role in rules.roles if group in own]
    if not held:
        return None
    return Identity(max(held, key=RANKED.index), user=f"proxy {name}")
