"""The URL of a store: what it names, what is refused, and that no password is shown."""

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from andon.errors import Invalid
from andon.settings.resolution import resolve
from andon.settings.store_url import LONGEST, StoreUrl, file_of, parse_store_url, redacted
from tests.support.rows import rows

FILES = [
    ("sqlite:///data/history.db", "/data/history.db"),
    ("sqlite:////data/history.db", "/data/history.db"),
    ("sqlite:/data/history.db", "/data/history.db"),
    ("SQLite:///data/history.db", "/data/history.db"),
    ("sqlite:history.db", "history.db"),
    ("sqlite:a/b.db", "a/b.db"),
    ("sqlite:~/b.db", "~/b.db"),
    ("sqlite:///a%20b/%C3%BC%25.db", "/a b/ü%.db"),
    ("sqlite:///a b.db", "/a b.db"),
    ("sqlite:C:\\gpu\\history.db", "C:\\gpu\\history.db"),
    ("sqlite:///srv/a@b:c.db", "/srv/a@b:c.db"),
    # Plain paths, as ANDON_HISTORY took before there were URLs.
    ("/data/history.db", "/data/history.db"),
    ("//data/history.db", "/data/history.db"),
    ("h.db", "h.db"),
    ("./sqlite:odd.db", "./sqlite:odd.db"),
    ("~/x.db", "~/x.db"),
    ("/data/100%?#.db", "/data/100%?#.db"),
    ("/data/a%20b.db", "/data/a%20b.db"),
    ("/my disk/history.db", "/my disk/history.db"),
    ("C:\\gpu\\history.db", "C:\\gpu\\history.db"),
    ("C:/gpu/history.db", "C:/gpu/history.db"),
]


@rows(("text", "path"), FILES)
def test_a_file_is_named_by_a_url_or_a_path(text: str, path: str) -> None:
    url = parse_store_url(text)
    assert (url.scheme, file_of(url)) == ("sqlite", path)
    assert file_of(parse_store_url(url.text)) == path, "the URL of a path names the same file"


@pytest.mark.parametrize("text", [":memory:", "memory:", "memory://", "MEMORY:"])
def test_memory_has_three_spellings(text: str) -> None:
    assert parse_store_url(text).scheme == "memory"


@pytest.mark.parametrize("text", [
    "mydb://ada:secret@host/db", "postgresql://host/db?sslmode=require", "x-y+z.1:place",
    "postgresql:///andon", "postgresql://?service=andon", "postgresql://a:5432,b:5433/andon",
    "postgresql://%2Frun%2Fpostgresql/andon", "postgresql://ada@[::1]:5432/andon",
    "postgresql:///andon?host=/run/pg&passfile=/etc/andon/pgpass",
])  # fmt: skip
def test_another_scheme_is_left_to_its_store(text: str) -> None:
    assert parse_store_url(text).text == text


REFUSED = [
    ("", "empty"),
    ("   ", "empty"),
    (" sqlite:h.db", "space"),
    ("sqlite:h.db ", "space"),
    ("/data/h.db\n", "control characters"),
    ("sqlite:///a\0b", "control characters"),
    ("sqlite:///a\x1b[2Jb", "control characters"),
    ("sqlite:///a%00b", "not a path"),
    ("sqlite:///a%0Ab", "not a path"),
    ("sqlite:%20", "not a path"),
    ("sqlite:///a%2", "not an escape"),
    ("sqlite:///a%zz", "not an escape"),
    ("sqlite:///%ff", "UTF-8"),
    ("sqlite:", "no file"),
    ("sqlite:/", "no file"),
    ("sqlite:///", "no file"),
    ("sqlite:////", "no file"),
    ("sqlite://", "a host"),
    ("sqlite://data/history.db", "a host"),
    ("sqlite:///a?mode=ro", "options"),
    ("sqlite:///a#b", "options"),
    ("sqlite::memory:", "no file"),
    ("memory:gpu", "location"),
    ("file:///data/history.db", "no kind of store"),
    ("file:history.db", "no kind of store"),
    ("postgresql:", "no location"),
    ("postgresql://", "no location"),
    ("postgresql://host/my db", "space"),
    ("postgresql:andon", "no database"),
    ("postgresql://host", "no database"),
    ("postgresql://host/", "no database"),
    ("postgresql://ada:secret@host/db", "has a password"),
    ("postgresql://ada:@host/db", "has a password"),
    ("postgresql:///andon?password=secret", "has a password"),
    ("postgresql:///andon?sslpassword=secret", "has a password"),
    ("x" * (LONGEST + 1), "more than 4096"),
    ("sqlite:///" + "y" * LONGEST, "more than 4096"),
]


@rows(("text", "reason"), REFUSED, ids=lambda value: ascii(value)[:30])
def test_what_names_no_store_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(Invalid, match=reason) as refused:
        parse_store_url(text)
    assert refused.value.hint
    assert len(refused.value.reason) < 200
    assert refused.value.reason.isprintable()


SECRETS = [
    ("postgresql://ada:hunter2@host/db", "postgresql://ada:***@host/db"),
    ("postgresql://ada:hunter2@host:5432/db", "postgresql://ada:***@host:5432/db"),
    ("postgresql://:hunter2@host/db", "postgresql://:***@host/db"),
    ("postgresql://ada:12345@host", "postgresql://ada:***@host"),
    ("postgresql://ada:12345/hunter2@host", "postgresql://ada:***@host"),
    ("postgresql://ada:a/b@c hunter2@host/db", "postgresql://ada:***@host/db"),
    ("postgresql://host/db?user=a&password=hunter2", "postgresql://host/db?user=a&password=***"),
    ("postgresql:/ada:hunter2@host/db", "postgresql:/ada:***@host/db"),
    ("postgresql:ada:hunter2@host/db", "postgresql:ada:***@host/db"),
    ("//ada:hunter2@host/db", "//ada:***@host/db"),
    ("postgresql://ada:hunter2", "postgresql://ada:***"),
    ("postgresql://ada:hunter2/db", "postgresql://ada:***"),
    ("postgresql://ada:" + "hunter2" * 500 + "@host", "postgresql://ada:***@host"),
    ("postgresql://ada:" + "hunter2" * 999 + "@host", "postgresql:***"),
    ("//a:hunter2@" * 1_000_000, "//a:***"),
    ("x" * 5_000, "x" * 40),
    ("postgresql://ada@host/db", "postgresql://ada@host/db"),
    ("postgresql://host:5432/db", "postgresql://host:5432/db"),
    ("postgresql://a:5432,b,c:1/db", "postgresql://a:5432,b,c:1/db"),
    ("postgresql://[::1]:5432/db", "postgresql://[::1]:5432/db"),
    ("sqlite:///srv/a@b:c.db", "sqlite:///srv/a@b:c.db"),
    ("/data/history.db", "/data/history.db"),
    ("memory:", "memory:"),
    ("", ""),
]


@rows(("text", "shown"), SECRETS)
def test_a_password_is_not_shown(text: str, shown: str) -> None:
    assert redacted(text) == shown
    assert redacted(shown) == shown


def test_a_url_shows_no_password_by_itself() -> None:
    url = parse_store_url("mydb://ada:hunter2@host/db")
    assert "hunter2" in url.text
    assert "hunter2" not in f"{url} {url!r} {[url]}"
    settings = resolve(None, {"ANDON_HISTORY": url.text}, {}).settings
    assert settings.history_store == url.text
    assert "hunter2" not in repr(settings)


def outcome(act: Callable[[], object]) -> object:
    try:
        return act()
    except Invalid as refused:
        return refused


@example("/")
@example("//")
@given(st.text(max_size=60))
def test_any_text_is_a_store_or_refused(text: str) -> None:
    found = outcome(lambda: parse_store_url(text))
    if isinstance(found, Invalid):
        assert found.hint
    else:
        assert isinstance(found, StoreUrl)
        assert found.scheme == found.scheme.lower()
        assert parse_store_url(found.text) == found


@given(st.from_regex(r"[a-z0-9]{6,12}", fullmatch=True), st.text("@:/ %?#ab\t", max_size=8))
def test_no_password_survives(secret: str, around: str) -> None:
    text = f"postgresql://ada:{around}{secret}{around}@host/db"
    assert secret not in redacted(text).removeprefix("postgresql://ada").removesuffix("@host/db")
    for found in (
        outcome(lambda: parse_store_url(text)),
        outcome(lambda: resolve(None, {"ANDON_HISTORY": text}, {})),
    ):
        assert secret not in str(found).partition("postgresql://ada")[2].rpartition("@host/db")[0]


@pytest.mark.parametrize("value", ["sqlite:///a.db", "memory:", ":memory:", "h.db", "~/h.db"])
def test_the_file_and_the_variable_take_the_same(value: str) -> None:
    by_variable = resolve(None, {"ANDON_HISTORY": value}, {}).settings
    by_file = resolve(("andon.toml", f'[history]\nstore = "{value}"\n'), {}, {}).settings
    assert by_variable.history_store == by_file.history_store == value


@rows(("text", "reason"), REFUSED[2:], ids=lambda value: ascii(value)[:30])
def test_a_setting_is_refused_where_it_is_written(text: str, reason: str) -> None:
    with pytest.raises(Invalid, match=rf"^ANDON_HISTORY: .*{reason}"):
        resolve(None, {"ANDON_HISTORY": text}, {})
