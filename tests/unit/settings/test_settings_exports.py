"""`[[export]]`: what may be written, every mistake at once, and no secret in any text."""

import pytest

from andon.errors import Invalid
from andon.settings.exports import ExportSettings, SecretSource, shown
from andon.settings.resolution import resolve

SECRET = "hunter2hunter2"


def exports(text: str) -> tuple[ExportSettings, ...]:
    return resolve(("andon.toml", text), {}, {}).settings.exports


def mistakes(text: str) -> tuple[str, ...]:
    with pytest.raises(Invalid) as caught:
        exports(text)
    assert SECRET not in str(caught.value.mistakes)
    return caught.value.mistakes


def test_a_kind_and_a_url_are_enough() -> None:
    (one,) = exports('[[export]]\nkind = "otlp"\nurl = "http://c:4318/v1/metrics"\n')
    assert one == ExportSettings("otlp", "otlp", "http://c:4318/v1/metrics", 15.0, 10.0)


def test_every_key() -> None:
    (one,) = exports(
        f"""[[export]]
        name = "lab"
        kind = "remote-write"
        url = "https://p.example/api/v1/write?key={SECRET}"
        interval = "5s"
        timeout = 3
        labels = {{ cluster = "a100" }}
        headers = {{ X-Scope-OrgID = "{SECRET}" }}
        user = "andon"
        password_file = "/run/secrets/p"
        """
    )
    assert one.interval_seconds == 5
    assert one.timeout_seconds == 3
    assert one.labels == {"cluster": "a100"}
    assert one.headers == {"X-Scope-OrgID": SECRET}
    assert one.secret == SecretSource("/run/secrets/p")
    assert SECRET not in repr(one)
    assert SECRET not in str(shown(one))
    assert shown(one)["url"] == "https://p.example/api/v1/write"
    assert shown(one)["headers"] == ["X-Scope-OrgID"]


def test_a_token_in_the_environment() -> None:
    (one,) = exports('[[export]]\nkind = "otlp"\nurl = "http://c/x"\ntoken_env = "LAB"\n')
    assert one.secret == SecretSource(variable="LAB")
    assert shown(one)["secret"] == "$LAB"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("", "url is missing"),
        (f'url = "http://u:{SECRET}@h/x"', "the value is not a URL such as"),
        ('url = "ftp://h/x"', "the value is not a URL such as"),
        ('url = "http:///x"', "the value is not a URL such as"),
        ('url = "http://h:99999/x"', "the value is not a URL such as"),
        ('url = "http://h/x"\ninterval = 0.1', "interval: must be from 1 to 3600"),
        ('url = "http://h/x"\ntimeout = "2h"', "timeout: must be from 1 to 600"),
        ('url = "http://h/x"\nlabels = { "a-b" = "c" }', "is not a table such as"),
        ('url = "http://h/x"\nlabels = { __name__ = "c" }', "is not a table such as"),
        (f'url = "http://h/x"\nheaders = {{ Authorization = "{SECRET}" }}', "without those that"),
        (f'url = "http://h/x"\nheaders = {{ A = "{SECRET}\\n" }}', "the value is not a table"),
        ('url = "http://h/x"\nuser = "ada"', "user belongs together with password_file"),
        ('url = "http://h/x"\npassword_env = "P"', "user belongs together with password_file"),
        ('url = "http://h/x"\ntoken_env = "P"\ntoken_file = "/p"', "name one of them"),
        (f'url = "http://h/x"\ntoken_file = "{SECRET}"', "the value is not an absolute path"),
        (f'url = "http://h/x"\ntoken = "{SECRET}"', "there is no setting 'token'"),
        ('url = "http://h/x"\nname = "../x"', "is not letters, digits"),
    ],
)
def test_mistakes_are_named_without_secrets(lines: str, said: str) -> None:
    (found,) = mistakes(f'[[export]]\nkind = "otlp"\n{lines}\n')
    assert found.startswith("andon.toml: export 1")
    assert said in found


def test_the_kind_must_be_known_and_names_must_differ() -> None:
    one = '[[export]]\nkind = "otlp"\nurl = "http://h/x"\n'
    assert "another export is named otlp" in mistakes(one + one)[0]
    assert "is not remote-write or otlp" in mistakes(one.replace("otlp", "statsd"))[0]
    assert "[[export]]" in mistakes('[export]\nkind = "otlp"\n')[0]


def test_a_section_of_that_name_is_not_the_exporters() -> None:
    assert "did you mean" in mistakes("[exporte]\nport = 1\n")[0]
