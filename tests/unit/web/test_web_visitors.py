"""The table of live connections and its quotas."""

from andon.access.lockout import LOOPBACK, peer_of
from andon.access.roles import ANONYMOUS, Identity, Role
from andon.web.live.visitors import MOST, MOST_ANONYMOUS, Visitors

KNOWN = Identity(Role.USER, 1234, "dora")


def test_all_of_loopback_is_one_peer_and_so_is_a_network_of_ipv6() -> None:
    own = ("127.0.0.1", "127.1.2.3", "127.255.255.254", "::1", "::ffff:127.0.0.9")
    assert {peer_of(address) for address in own} == {LOOPBACK}
    assert peer_of("10.0.0.1") != peer_of("10.0.0.2")
    assert peer_of("::ffff:10.0.0.1") == peer_of("10.0.0.1")
    assert peer_of("2001:db8::1") == peer_of("2001:db8::ffff")
    assert peer_of("2001:db8::1") != peer_of("2001:db8:0:1::1")
    assert peer_of(None) == ""
    assert peer_of("no address") == "no address"


def test_anonymous_clients_of_one_peer_leave_places_for_those_with_a_key() -> None:
    visitors = Visitors()
    came = [visitors.admit(f"127.0.{n // 250}.{n % 250 + 1}", ANONYMOUS) for n in range(MOST)]
    assert len([one for one in came if one]) == MOST_ANONYMOUS < MOST
    assert visitors.admit("10.0.0.7", ANONYMOUS) is not None
    assert visitors.admit("127.0.0.1", KNOWN) is not None


def test_a_place_is_given_back_once() -> None:
    visitors = Visitors(most=3, most_anonymous=1)
    first = visitors.admit("127.0.0.1", ANONYMOUS)
    assert first is not None
    visitors.began(first, "c1")
    assert visitors.of("c1") is first
    assert visitors.admit("127.0.0.2", ANONYMOUS) is None
    visitors.leave(first)
    visitors.leave(first)
    assert (visitors.of("c1"), len(visitors), first.gone) == (None, 0, True)
    assert visitors.admit("127.0.0.2", ANONYMOUS) is not None
    assert visitors.admit("127.0.0.2", ANONYMOUS) is None


def test_whoever_shows_a_key_later_gives_the_anonymous_place_back() -> None:
    visitors = Visitors(most=3, most_anonymous=1)
    first = visitors.admit("::1", ANONYMOUS)
    assert first is not None
    visitors.trust(first, KNOWN)
    visitors.trust(first, KNOWN)
    second = visitors.admit("::1", ANONYMOUS)
    assert second is not None
    visitors.leave(first)
    assert visitors.admit("::1", ANONYMOUS) is None
    visitors.leave(second)
    assert visitors.admit("::1", ANONYMOUS) is not None


def test_there_is_an_end_to_places_for_those_with_a_key() -> None:
    visitors = Visitors(most=2)
    assert visitors.admit("10.0.0.1", KNOWN)
    assert visitors.admit("10.0.0.1", KNOWN)
    assert visitors.admit("10.0.0.1", KNOWN) is None


def test_the_connections_of_a_session_are_found() -> None:
    visitors = Visitors()
    first, second = visitors.admit("::1", KNOWN), visitors.admit("::1", KNOWN)
    assert first is not None
    assert second is not None
    first.keys.add(b"s")
    assert visitors.of_key(b"s") == [first]
    visitors.leave(first)
    assert visitors.of_key(b"s") == []
