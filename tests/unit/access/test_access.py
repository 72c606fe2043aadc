"""Who may do what: every kind of caller at every kind of door."""

from itertools import product

import pytest
from msgspec.structs import replace

from andon.access.gate import (
    AccessRequest,
    Rules,
    ShownKey,
    changes,
    is_loopback,
    is_open,
    is_proxy_header,
    judge,
    parse_host,
)
from andon.access.lockout import MOST_PEERS, Lockout
from andon.access.roles import Identity, Role
from tests.support.rows import rows

HOME = Rules(loopback=True)
OUTSIDE = Rules(loopback=False, names=frozenset({"localhost", "node17", "gpu.example.org"}))
OWNER = Identity(Role.OWNER, 0, "root")  # it matters only with a key
DORA = Identity(Role.USER, 1234, "dora")
LOCAL = AccessRequest("GET", "/api/snapshot", ("localhost:26366",), who=OWNER)

READS = ["/api/snapshot", "/api/health", "/metrics", "/openapi.json", "/socket.io/", "/nowhere"]
CHANGES = [("POST", "/api/links"), ("DELETE", "/api/session"), ("PUT", "/api/leases"),
           ("PATCH", "/api/alerts"), ("TRACE", "/"), ("BREW", "/api/snapshot"),
           ("POST", "/"), ("POST", "/static/board.js"), ("POST", "/socket.io"),
           ("POST", "/socket.iox/"), ("DELETE", "/healthz")]  # fmt: skip
OPEN = ["/", "/healthz", "/static/board.js", "/favicon.ico", "/docs", "/api/proof"]
OUR_HOSTS = ["localhost", "localhost:26366", "LOCALHOST:26366", "127.0.0.1", "127.0.0.1:9",
             "127.8.8.8:26366", "[::1]", "[::1]:26366", "localhost.",
             "[::ffff:127.0.0.1]:1"]  # fmt: skip
NOT_HOSTS = ["", " ", "localhost:", "localhost:x", "localhost:999999", "evil.com@localhost",
             "localhost evil.com", "localhost/evil", "[::1", "::1", "a\r\nb", "localhost,evil.com",
             "2130706433", "0x7f.1", "127.1", "0177.0.0.1", "[]", "ｌocalhost"]  # fmt: skip
EVIL_HOSTS = ["evil.com", "evil.com:26366", "localhost.evil.com", "127.0.0.1.nip.io", "10.0.0.7",
              "0.0.0.0:26366", "[2001:db8::1]:26366", "notlocalhost",
              "xlocalhost:26366"]  # fmt: skip
EVIL_ORIGINS = ["http://evil.com", "https://evil.com:26366", "null", "", "http://localhost:8888",
                "http://localhost", "http://localhost:26366.evil.com", "file://", "http://",
                "http://evil.com@localhost:26366", "http://localhost:26366/", "localhost:26366",
                "chrome-extension://abcdefgh", "http://127.0.0.1:26366"]  # fmt: skip


def status(call: AccessRequest, rules: Rules = HOME) -> int:
    refusal = judge(call, rules)
    assert refusal is None or (refusal.reason and refusal.hint)
    return 200 if refusal is None else refusal.status


@rows("host", OUR_HOSTS)
@rows("path", READS)
def test_reading_on_loopback_is_free(host: str, path: str) -> None:
    assert status(replace(LOCAL, path=path, hosts=(host,))) == 200


def test_a_rebound_name_gets_nothing_not_even_with_the_token() -> None:
    hosts, keys = [*NOT_HOSTS, *EVIL_HOSTS], [ShownKey.NONE, ShownKey.TOKEN]
    paths = ["/api/snapshot", "/socket.io/", "/healthz", "/", "/metrics"]
    calls = [
        replace(LOCAL, path=path, hosts=(host,), key=key)
        for host, key, path in product(hosts, keys, paths)
    ]
    assert len(calls) == 270
    passed = [str(call) for call in calls if status(call) != 403]
    assert not passed, "\n".join(passed)


@pytest.mark.parametrize("hosts", [(), ("localhost", "localhost"), ("localhost", "evil.com")])
def test_a_request_has_one_host(hosts: tuple[str, ...]) -> None:
    assert status(replace(LOCAL, hosts=hosts)) == 403


def test_another_sites_page_gets_nothing() -> None:
    paths = ["/api/snapshot", "/socket.io/", "/metrics", "/api/session"]
    keys = [ShownKey.NONE, ShownKey.TOKEN]
    calls = [
        replace(LOCAL, path=path, origins=(origin,), admitted=admitted, key=key)
        for origin, admitted, path, key in product(EVIL_ORIGINS, (False, True), paths, keys)
    ]
    assert len(calls) == 224
    passed = [str(call) for call in calls if status(call) != 403]
    assert not passed, "\n".join(passed)


@rows(
    ("host", "origin"),
    [
        ("localhost:26366", "http://localhost:26366"),
        ("localhost:26366", "https://localhost:26366"),
        ("127.0.0.1:26366", "HTTP://127.0.0.1:26366"),
        ("[::1]:26366", "http://[::1]:26366"),
        ("localhost", "http://localhost"),
        ("localhost", "http://localhost:80"),
        ("localhost:443", "https://localhost"),
        ("localhost", "https://localhost"),
    ],
)
def test_our_own_page_may_read(host: str, origin: str) -> None:
    assert status(replace(LOCAL, hosts=(host,), origins=(origin,))) == 200


def test_two_origins_are_one_too_many() -> None:
    assert status(replace(LOCAL, origins=("http://localhost:26366",) * 2)) == 403


@rows("site", ["cross-site", "same-site"])
@rows("mode", [None, "no-cors", "cors", "websocket", "same-origin"])
@rows("path", READS)
def test_what_a_browser_calls_foreign_is_refused_without_an_origin(
    site: str, mode: str | None, path: str
) -> None:
    assert status(replace(LOCAL, path=path, fetch_site=site, fetch_mode=mode)) == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", "same-origin"])
def test_a_link_from_anywhere_may_lead_here(site: str) -> None:
    assert status(replace(LOCAL, path="/", fetch_site=site, fetch_mode="navigate")) == 200
    sent = replace(LOCAL, method="POST", fetch_site=site, fetch_mode="navigate", key=ShownKey.TOKEN)
    assert status(sent) == (403 if site in ("cross-site", "same-site") else 200)


@rows(("method", "path"), CHANGES)
@rows("rules", [HOME, OUTSIDE])
def test_a_change_needs_the_token_everywhere(method: str, path: str, rules: Rules) -> None:
    call = replace(LOCAL, method=method, path=path)
    assert changes(call)
    assert status(call, rules) == 401
    assert status(replace(call, key=ShownKey.TOKEN), rules) == 200
    assert status(replace(call, key=ShownKey.SESSION), rules) == 200


@rows("path", [*READS, *OPEN])
@rows("rules", [HOME, OUTSIDE])
def test_a_wrong_token_is_worse_than_none(path: str, rules: Rules) -> None:
    assert status(replace(LOCAL, path=path, key=ShownKey.WRONG), rules) == 401


def test_other_addresses_need_it_for_reading_too() -> None:
    peers = ["127.0.0.1", "::1", "10.0.0.9", "2001:db8::7", None]
    hosts = ["node17:26366", "10.0.0.1:26366", "gpu.example.org", "localhost"]
    expected = {ShownKey.NONE: 401, ShownKey.TOKEN: 200, ShownKey.SESSION: 200}
    calls = [
        replace(LOCAL, path=path, peer=peer, hosts=(host,), key=key)
        for path, peer, host, key in product(READS, peers, hosts, expected)
    ]
    assert len(calls) == 360
    wrong = [str(call) for call in calls if status(call, OUTSIDE) != expected[call.key]]
    assert not wrong, "\n".join(wrong)


@rows("host", ["evil.com", "node18", "node17.evil.com"])
@rows("key", list(ShownKey))
def test_other_addresses_check_the_name_too(host: str, key: ShownKey) -> None:
    assert status(replace(LOCAL, hosts=(host,), key=key), OUTSIDE) == 403


@rows("path", OPEN)
@rows("method", ["GET", "HEAD"])
@rows("rules", [HOME, OUTSIDE])
def test_the_shell_is_open_and_holds_no_reading(path: str, method: str, rules: Rules) -> None:
    call = replace(LOCAL, method=method, path=path)
    assert is_open(call)
    assert status(call, rules) == 200


@pytest.mark.parametrize("path", ["/static", "/statics/x", "/healthz/", "//", "/api", "/Healthz"])
def test_what_only_looks_like_the_shell_is_not(path: str) -> None:
    assert status(replace(LOCAL, path=path), OUTSIDE) == 401


@pytest.mark.parametrize("rules", [HOME, OUTSIDE])
def test_a_code_is_exchanged_without_a_token(rules: Rules) -> None:
    assert status(replace(LOCAL, method="POST", path="/api/session"), rules) == 200
    assert status(replace(LOCAL, method="POST", path="/api/session/"), rules) == 401


@rows("path", READS)
@rows(("peer", "forwarded"), [("10.0.0.9", False), ("127.0.0.1", True),
                                                 (None, False), ("nonsense", False)])  # fmt: skip
def test_a_proxy_on_this_machine_does_not_make_the_world_local(
    path: str, peer: str | None, forwarded: bool
) -> None:
    call = replace(LOCAL, path=path, peer=peer, forwarded=forwarded)
    assert status(call) == 401
    assert status(replace(call, key=ShownKey.TOKEN)) == 200


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_live_connection_that_was_let_in_goes_on(method: str) -> None:
    call = replace(LOCAL, method=method, path="/socket.io/")
    assert status(call, OUTSIDE) == 401
    assert status(replace(call, admitted=True), OUTSIDE) == 200
    assert status(replace(call, admitted=True, path="/api/snapshot"), OUTSIDE) == 401
    assert status(replace(call, admitted=True, key=ShownKey.WRONG), OUTSIDE) == 401
    assert status(replace(call, admitted=True, hosts=("evil.com",)), OUTSIDE) == 403


@pytest.mark.parametrize("rules", [HOME, OUTSIDE])
def test_polling_posts_are_reading(rules: Rules) -> None:
    call = replace(LOCAL, method="POST", path="/socket.io/")
    assert not changes(call)
    assert status(call, rules) == (200 if rules.loopback else 401)


def test_nothing_passes_by_any_mixture_without_a_right_key_from_outside() -> None:
    for method, path, forwarded, site in product(
        ("GET", "HEAD", "POST", "OPTIONS", "DELETE"), READS, (False, True),
        (None, "same-origin", "cross-site"),
    ):  # fmt: skip
        call = AccessRequest(method, path, ("node17",), "10.0.0.9", (), site, "cors", forwarded)
        assert status(call, OUTSIDE) in (401, 403), call


@pytest.mark.parametrize("text", NOT_HOSTS[:6])
def test_what_is_no_host_is_none(text: str) -> None:
    assert parse_host(text) is None


@rows(
    ("address", "expected"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("::ffff:127.0.0.1", True),
     ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("localhost", False), (None, False)],
)  # fmt: skip
def test_loopback_is_an_address(address: str | None, expected: bool) -> None:
    assert is_loopback(address) is expected


def test_ten_failures_in_a_minute_are_enough_and_the_minute_ends() -> None:
    lockout = Lockout()
    for at in range(10):
        assert lockout.wait_seconds("10.0.0.9", at) == 0
        lockout.failed("10.0.0.9", at)
    assert lockout.wait_seconds("10.0.0.9", 10) == 50
    assert lockout.wait_seconds("10.0.0.8", 10) == 0
    assert lockout.wait_seconds("10.0.0.9", 60) == 0
    lockout.failed("10.0.0.9", 61)
    assert lockout.wait_seconds("10.0.0.9", 61) == 0


def test_a_network_of_addresses_is_one_guesser() -> None:
    lockout = Lockout()
    for number in range(10):
        lockout.failed(f"2001:db8::{number:x}", 0)
    assert lockout.wait_seconds("2001:db8::ffff", 1) == 59
    assert lockout.wait_seconds("2001:db8:0:1::1", 1) == 0


def test_what_is_remembered_of_guessers_is_bounded() -> None:
    lockout = Lockout()
    for number in range(MOST_PEERS + 100):
        lockout.failed(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 0)
    assert len(lockout) == MOST_PEERS


@pytest.mark.parametrize(
    ("method", "path", "found"),
    [
        ("DELETE", "/api/leases/x", 200),
        ("PUT", "/api/devices/0/cordon", 403),
        ("POST", "/api/links", 403),
        ("POST", "/api/unheard-of", 403),
        ("POST", "/api/session", 200),
        ("GET", "/api/snapshot", 200),
    ],
)
def test_a_users_session_opens_what_the_role_allows(method: str, path: str, found: int) -> None:
    call = replace(LOCAL, method=method, path=path, key=ShownKey.SESSION, who=DORA)
    assert status(call) == found


@rows(
    "header",
    ["via", "forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip",
     "x-client-ip", "client-ip", "true-client-ip", "cf-connecting-ip", "cf-ray", "cf-visitor",
     "fastly-client-ip", "fly-client-ip", "x-original-host", "x-original-forwarded-for",
     "x-envoy-external-address", "x-appengine-user-ip", "x-azure-clientip", "x-remote-ip",
     "x-remote-addr", "x-originating-ip", "x-host", "x-proxyuser-ip", "x-amzn-trace-id",
     "x-cluster-client-ip", "x-scheme", "front-end-https", "wl-proxy-client-ip", "x-arr-log-id",
     "x-varnish", "ngrok-trace-id", "tailscale-user-login", "x-cloud-trace-context", "cdn-loop"],
)  # fmt: skip
def test_a_header_of_a_proxy_is_known(header: str) -> None:
    assert is_proxy_header(header)


@rows(
    "header",
    ["host", "user-agent", "accept", "accept-encoding", "connection", "cookie", "authorization",
     "content-type", "origin", "referer", "sec-fetch-site", "upgrade", "sec-websocket-key", "te",
     "x-requested-with", "x-prometheus-scrape-timeout-seconds", "x-grafana-device-id", "priority",
     "if-none-match", "proxy-authorization", "x-andon-x", "dnt", "x-request-id"],
)  # fmt: skip
def test_a_header_of_a_client_is_none(header: str) -> None:
    assert not is_proxy_header(header)


def test_a_key_that_cannot_be_checked_now_is_not_called_wrong() -> None:
    asked = replace(LOCAL, path="/api/nodes", key=ShownKey.UNCHECKED)
    assert [status(asked, rules) for rules in (HOME, OUTSIDE)] == [503, 503]
    assert status(replace(asked, path="/healthz"), OUTSIDE) == 200
