"""Which connections count together: one peer is one machine, and all of loopback is one."""

import ipaddress

LOOPBACK = "loopback"


def peer_of(address: str | None) -> str:
    """Returns a key for quotas: 127.0.0.0/8 is this machine, an IPv6 /64 is one customer."""
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return address or ""
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    known = mapped or found
    if known.is_loopback:
        return LOOPBACK
    if known.version == 4:
        return str(known)
    return str(ipaddress.ip_network((known, 64), strict=False))
