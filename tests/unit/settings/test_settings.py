"""Settings: who beats whom, and every mistake at once, each with its place."""

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.errors import Invalid
from andon.settings.figures import every_field
from andon.settings.resolution import (
    FIELDS,
    OTHERS,
    TABLES,
    Resolved,
    Settings,
    describe,
    resolve,
)
from tests.conftest import REPOSITORY
from tests.support.rows import rows

FILE = "andon.toml"


def from_file(text: str) -> Resolved:
    return resolve((FILE, text), {}, {})


def mistakes(
    text: str | None = None, env: dict[str, str] | None = None, **flags: object
) -> tuple[str, ...]:
    with pytest.raises(Invalid) as caught:
        resolve(None if text is None else (FILE, text), env or {}, flags)
    assert caught.value.hint
    return caught.value.mistakes


def test_with_nothing_given_the_defaults_hold_and_say_so() -> None:
    resolved = resolve(None, {}, {})
    assert resolved.settings == Settings()
    assert set(resolved.origin.values()) == {"default"}


def test_a_flag_beats_a_variable_beats_the_file_beats_the_default() -> None:
    text = "[sampling]\ninterval = 5\ndeadline = 5\ncache = 5\n"
    env = {"ANDON_INTERVAL": "6", "ANDON_DEADLINE": "6"}
    resolved = resolve((FILE, text), env, {"interval_seconds": 7.0, "simulate": None})
    settings = resolved.settings
    assert settings.interval_seconds == 7
    assert settings.deadline_seconds == 6
    assert settings.cache_seconds == 5
    assert settings.simulate == 0
    assert resolved.origin["interval_seconds"] == "flag"
    assert resolved.origin["deadline_seconds"] == "ANDON_DEADLINE"
    assert resolved.origin["cache_seconds"] == "file andon.toml"
    assert resolved.origin["simulate"] == "default"


EXPECTED = Settings(
    node="n1",
    root="/host",
    backends=("nvidia", "amd"),
    simulate=4,
    simulate_seed=9,
    simulate_scenario="idle",
    simulate_faults=("lost:1@5",),
    replay="bug.jsonl",
    replay_speed=2.0,
    replay_loop=True,
    deadline_seconds=2.0,
    cache_seconds=0.0,
    score_memory_weight=1.0,
    score_utilization_weight=0.0,
    score_link_weight=0.5,
    share_labels=("quiet:3",),
    history_store="sqlite:h.db",
    history_flush_seconds=1.0,
    history_raw_days=1.0,
    history_minute_days=12.0,
    history_hour_days=40.0,
    history_max_megabytes=20,
    runs_keep_days=30.0,
    runs_megabytes=500,
    work_grace_seconds=2.0,
    map_gpus=2,
    containers_engine="podman",
    jobs_log_megabytes=7,
    jobs_keep_days=3.0,
    jobs_idle_seconds=5.0,
    jobs_submit_over_http=True,
    jobs_on="lab",
    notify_me_jobs="fail",
    notify_me_turn=True,
    notify_me_alerts=True,
    notify_me_by=("desktop", "slack"),
    reports_weekly="Mon 08:00",
    reports_by=("slack",),
    server_allow_origins=("http://localhost:3000",),
    server_sign_in=False,
    server_proxy="10.0.0.7",
    server_proxy_roles=("ops:operate",),
    hub_unencrypted=True,
    hub_metrics="devices",
    ssh_andon="~/x/andon",
    exporter_prefix="lab",
    exporter_host="::1",
    exporter_port=9700,
    runs_price_per_kwh=0.3,
    runs_currency="EUR",
    runs_co2_grams_per_kwh=380.0,
)


def test_every_setting_can_be_given_in_the_file() -> None:
    text = """
    [node]
    name = "n1"
    root = "/host"
    [devices]
    backends = ["nvidia", "amd"]
    [simulation]
    devices = 4
    seed = 9
    scenario = "idle"
    faults = ["lost:1@5"]
    [replay]
    file = "bug.jsonl"
    speed = 2
    loop = true
    [sampling]
    interval = "500ms"
    deadline = 2
    cache = 0
    [score]
    memory_weight = 1
    utilization_weight = 0.0
    link_weight = 0.5
    [share]
    labels = ["quiet:3"]
    [history]
    store = "sqlite:h.db"
    flush = 1
    raw_days = 1
    minute_days = 12
    hour_days = 40
    max_megabytes = 20
    [runs]
    keep_days = 30
    megabytes = 500
    price_per_kwh = 0.3
    currency = "EUR"
    co2_grams_per_kwh = 380
    [work]
    grace = "2s"
    [map]
    gpus = 2
    [containers]
    engine = "podman"
    [jobs]
    log_megabytes = 7
    keep_days = 3
    idle = "5s"
    submit_over_http = true
    on = "lab"
    [notify.me]
    jobs = "fail"
    turn = true
    alerts = true
    by = ["desktop", "slack"]
    [reports]
    weekly = "Mon 08:00"
    by = ["slack"]
    [server]
    allow_origins = ["http://localhost:3000"]
    sign_in = false
    proxy = "10.0.0.7"
    proxy_roles = ["ops:operate"]
    [hub]
    unencrypted = true
    metrics = "devices"
    [ssh]
    andon = "~/x/andon"
    [exporter]
    prefix = "lab"
    host = "::1"
    port = 9700
    [display]
    color = "never"
    """
    expected = replace(EXPECTED, interval_seconds=0.5, color="never")
    assert from_file(text).settings == expected


def test_every_setting_can_be_given_by_a_variable() -> None:
    env = {
        "ANDON_NODE": "n1", "ANDON_ROOT": "/host", "ANDON_BACKENDS": "nvidia, amd",
        "ANDON_SIMULATE": "4", "ANDON_SIMULATE_SEED": "9", "ANDON_SIMULATE_SCENARIO": "idle",
        "ANDON_SIMULATE_FAULTS": "lost:1@5",
        "ANDON_REPLAY": "bug.jsonl", "ANDON_REPLAY_SPEED": "2", "ANDON_REPLAY_LOOP": "yes",
        "ANDON_INTERVAL": "1m", "ANDON_DEADLINE": "2s", "ANDON_CACHE": "0",
        "ANDON_SCORE_MEMORY_WEIGHT": "1", "ANDON_SCORE_UTILIZATION_WEIGHT": "0",
        "ANDON_SCORE_LINK_WEIGHT": "0.5",
        "ANDON_SHARE_LABELS": "quiet:3", "ANDON_COLOR": "always",
        "ANDON_HISTORY": "sqlite:h.db", "ANDON_HISTORY_FLUSH": "1s", "ANDON_HISTORY_RAW_DAYS": "1",
        "ANDON_HISTORY_MINUTE_DAYS": "12", "ANDON_HISTORY_HOUR_DAYS": "40",
        "ANDON_HISTORY_MAX_MEGABYTES": "20",
        "ANDON_RUNS_KEEP_DAYS": "30", "ANDON_RUNS_MEGABYTES": "500", "ANDON_MAP_GPUS": "2",
        "ANDON_WORK_GRACE": "2",
        "ANDON_CONTAINERS_ENGINE": "podman",
        "ANDON_JOBS_LOG_MEGABYTES": "7", "ANDON_JOBS_KEEP_DAYS": "3", "ANDON_JOBS_IDLE": "5s",
        "ANDON_JOBS_SUBMIT_OVER_HTTP": "yes",
        "ANDON_JOBS_ON": "lab",
        "ANDON_NOTIFY_ME_JOBS": "fail", "ANDON_NOTIFY_ME_TURN": "yes",
        "ANDON_NOTIFY_ME_ALERTS": "yes", "ANDON_NOTIFY_ME_BY": "desktop,slack",
        "ANDON_REPORTS_WEEKLY": "Mon 08:00", "ANDON_REPORTS_BY": "slack",
        "ANDON_SERVER_ALLOW_ORIGINS": "http://localhost:3000", "ANDON_SERVER_SIGN_IN": "no",
        "ANDON_SERVER_PROXY": "10.0.0.7", "ANDON_SERVER_PROXY_ROLES": "ops:operate",
        "ANDON_HUB_UNENCRYPTED": "yes", "ANDON_HUB_METRICS": "devices",
        "ANDON_SSH_ANDON": "~/x/andon",
        "ANDON_EXPORTER_PREFIX": "lab", "ANDON_EXPORTER_HOST": "::1",
        "ANDON_EXPORTER_PORT": "9700",
        "ANDON_RUNS_PRICE_PER_KWH": "0.3", "ANDON_RUNS_CURRENCY": "EUR",
        "ANDON_RUNS_CO2_GRAMS_PER_KWH": "380",
    }  # fmt: skip
    others = {f.variable for f in FIELDS if not f.name.startswith("alerts_")}
    assert set(env) == others, "those of the alerts are in test_settings_alerts"
    expected = replace(EXPECTED, interval_seconds=60.0, color="always")
    assert resolve(None, env, {}).settings == expected


def test_an_empty_variable_counts_as_not_set() -> None:
    assert resolve(None, {"ANDON_INTERVAL": "", "ANDON_NODE": ""}, {}).settings == Settings()


def test_an_empty_tuple_is_a_flag_that_was_not_given() -> None:
    assert resolve(None, {}, {"backends": ()}).settings.backends == ("auto",)
    assert resolve(None, {}, {"backends": ("sim",)}).settings.backends == ("sim",)


def test_variables_of_other_parts_are_no_mistake() -> None:
    found = resolve(None, dict.fromkeys(OTHERS, "x") | {"HOME": "x"}, {})
    assert (found.settings, found.warnings) == (Settings(), ())


def test_every_variable_that_andon_names_is_known_to_it() -> None:
    """Those that it sets for commands, too: a command may run andon."""
    source = "".join(path.read_text() for path in (REPOSITORY / "src/andon").rglob("*.py"))
    named = set(re.findall(r'"(ANDON_[A-Z_]*[A-Z])"', source))
    assert named - {field.variable for field in every_field()} - OTHERS == set()


@rows(
    ("text", "mistake"),
    [
        ('[sampling]\ninterval = "fast"',
         'andon.toml:2: sampling.interval: "fast" is not a number of seconds such as 1 or 500ms'),
        ("[sampling]\n\ninterval = 0.01", "andon.toml:3: sampling.interval: 0.01 is less than 0.1"),
        ("sampling.interval = 4000", "andon.toml:1: sampling.interval: 4000 is more than 3600"),
        ("[sampling]\ninterval = true",
         "andon.toml:2: sampling.interval: true is not a number of seconds such as 1 or 500ms"),
        ("[sampling]\ninterval = nan",
         "andon.toml:2: sampling.interval: nan is not a number of seconds such as 1 or 500ms"),
        ("[simulation]\ndevices = 513", "andon.toml:2: simulation.devices: 513 is more than 512"),
        ("[simulation]\ndevices = 1.5",
         "andon.toml:2: simulation.devices: 1.5 is not a whole number"),
        ('[node]\nroot = "host"',
         'andon.toml:2: node.root: "host" is not an absolute path'),
        ("[node]\nname = 3", "andon.toml:2: node.name: 3 is not text"),
        ("[devices]\nbackends = []",
         'andon.toml:2: devices.backends: [] is not a list of names such as ["nvidia"]'),
        ('[devices]\nbackends = ["a", 3]',
         'andon.toml:2: devices.backends: ["a", 3] is not a list of names such as ["nvidia"]'),
        ('[display]\ncolor = "blue"',
         'andon.toml:2: display.color: "blue" is not one of auto, always, never'),
        ("[sampling]\nintervall = 1",
         "andon.toml:2: sampling.intervall: there is no such setting: "
         "did you mean sampling.interval?"),
        ("[samplng]\ninterval = 1",
         "andon.toml:1: samplng: there is no such setting: did you mean sampling?"),
        ("interval = 1",
         "andon.toml:1: interval: there is no such setting: did you mean sampling.interval?"),
        ("zzz = 1", "andon.toml:1: zzz: there is no such setting"),
        ("[runs]\nkeep_day = 1",
         "andon.toml:2: runs.keep_day: there is no such setting: did you mean runs.keep_days?"),
        ("[alerts]\nfoo = 1", "andon.toml:2: alerts.foo: there is no such setting"),
        ("[[alerts.notifiers]]\nname = 1",
         "andon.toml: alerts.notifiers: there is no such setting: did you mean alerts.notifier?"),
        ("[notifiers]\nname = 1",
         "andon.toml:1: notifiers: there is no such setting: did you mean alerts.notifier?"),
        ("sampling = 1",
         "andon.toml:1: sampling: this is a section: write [sampling] and its settings below it"),
        ("[sampling.interval]\nx = 1",
         "andon.toml:1: sampling.interval: a section is not a number of seconds "
         "such as 1 or 500ms"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_file_names_its_place(text: str, mistake: str) -> None:
    assert mistakes(text) == (mistake,)


@rows(
    ("name", "value", "mistake"),
    [
        ("ANDON_INTERVAL", "fast",
         'ANDON_INTERVAL: "fast" is not a number of seconds such as 1 or 500ms'),
        ("ANDON_INTERVAL", "1h30", 'ANDON_INTERVAL: "1h30" is not a number of seconds'),
        ("ANDON_SIMULATE", "-1", 'ANDON_SIMULATE: "-1" is less than 0'),
        ("ANDON_SIMULATE", "many", 'ANDON_SIMULATE: "many" is not a whole number'),
        ("ANDON_BACKENDS", "a,,b", 'ANDON_BACKENDS: "a,,b" is not a list of names'),
        ("ANDON_INTERVALL", "1", "no such setting: did you mean ANDON_INTERVAL?"),
        ("ANDON_LEASES_DIR", "x", "did you mean ANDON_LEASE_DIR?"),
        ("ANDON_XYZZY", "1", "ANDON_XYZZY: there is no such setting"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_variable_names_it(name: str, value: str, mistake: str) -> None:
    (found,) = mistakes(env={name: value})
    assert mistake in found


def test_a_mistake_in_a_flag_names_the_flag() -> None:
    assert mistakes(interval_seconds="fast")[0].startswith('--interval: "fast" is not')
    assert mistakes(simulate=600) == ("--simulate: 600 is more than 512",)
    assert "did you mean simulate?" in mistakes(simulat=1)[0]


def test_all_mistakes_of_all_places_are_reported_at_once() -> None:
    found = mistakes(
        '[sampling]\ninterval = "x"\nfoo = 1', {"ANDON_CACHE": "y", "ANDON_BOGUS": "1"}, simulate=-1
    )
    assert len(found) == 5


def test_a_wrong_value_is_a_mistake_even_where_a_better_place_overrides_it() -> None:
    assert len(mistakes('[sampling]\ninterval = "x"', {"ANDON_INTERVAL": "2"})) == 1


def test_one_mistake_is_its_own_reason_and_several_are_counted() -> None:
    with pytest.raises(Invalid, match="ANDON_CACHE: "):
        resolve(None, {"ANDON_CACHE": "x"}, {})
    with pytest.raises(Invalid, match="there are 2 mistakes in the settings"):
        resolve(None, {"ANDON_CACHE": "x", "ANDON_INTERVAL": "x"}, {})


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("[sampling\n", "andon.toml:1: not valid TOML: "),
        ("[sampling]\ninterval = \n", "andon.toml:2: not valid TOML: "),
        ("[sampling]\ninterval = 1\ninterval = 2\n", "andon.toml:3: not valid TOML: "),
        ("a = " + "[" * 100_000, "andon.toml: not valid TOML: "),
        ("a = " + "9" * 5000, "andon.toml: not valid TOML: "),
    ],
)
def test_a_file_that_is_not_toml_says_where(text: str, start: str) -> None:
    (found,) = mistakes(text)
    assert found.startswith(start)


def test_weights_that_are_both_zero_choose_nothing() -> None:
    (found,) = mistakes("[score]\nmemory_weight = 0\nutilization_weight = 0")
    assert "must be above 0" in found


@pytest.mark.parametrize("prefix", ["9x", "a-b", "", "a b", "é"])
def test_a_prefix_that_no_metric_can_have_is_a_mistake_with_its_flag(prefix: str) -> None:
    (found,) = mistakes(exporter_prefix=prefix)
    assert found.startswith("--prefix: ")
    assert "letters, digits and _" in found


def test_the_table_and_the_settings_have_the_same_fields() -> None:
    names = {*(f.name for f in FIELDS), *TABLES.values(), "alerts_figures"}
    assert names == set(Settings.__struct_fields__)
    for taken in (
        [f.place for f in every_field()],
        [f.variable for f in every_field()],
        [f.flag for f in every_field()],
    ):
        assert len(set(taken)) == len(every_field())


def test_every_default_passes_its_own_check() -> None:
    flags = {f.name: f.default for f in every_field()}
    found = resolve(None, {}, flags).settings
    assert replace(found, alerts_figures=()) == Settings()
    assert all(figure is not None for _, figure in found.alerts_figures)


def test_the_table_describes_itself_for_people() -> None:
    rows = {row.name: row for row in describe()}
    assert rows["interval_seconds"].place == "sampling.interval"
    assert rows["interval_seconds"].allowed == (
        "a number of seconds such as 1 or 500ms, 0.1 to 3600"
    )
    assert rows["color"].allowed == "auto, always, never"
    assert rows["backends"].default == '["auto"]'
    assert rows["node"].default == '""'
    assert all(row.help and row.variable.startswith("ANDON_") for row in rows.values())


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text())


def outcome(file: str | None, env: dict[str, str], flags: dict[str, object]) -> object:
    """The settings, or the mistakes."""
    try:
        return resolve(None if file is None else (FILE, file), env, flags).settings
    except Invalid as exc:
        return exc.mistakes


KEYS = st.sampled_from(
    [*(f.place for f in every_field()), "x", '"a\\nb"', "[node]", "[sampling]", "name"]
)
LINES = st.lists(KEYS | st.builds("{} = {}".format, KEYS, st.integers() | st.text()), max_size=5)


@given(
    st.text() | LINES.map("\n".join),
    st.dictionaries(st.sampled_from([f.variable for f in every_field()]) | st.text(), st.text()),
)
def test_any_text_is_either_settings_or_mistakes_of_one_line(
    text: str, env: dict[str, str]
) -> None:
    result = outcome(text, env, {})
    if not isinstance(result, Settings):
        assert isinstance(result, tuple)
        assert result
        assert not any("\n" in mistake for mistake in result)


@given(st.dictionaries(st.sampled_from([f.name for f in every_field()]), VALUES))
def test_any_flags_are_either_settings_within_bounds_or_mistakes(flags: dict[str, object]) -> None:
    result = outcome(None, {}, flags)
    if isinstance(result, Settings):
        assert 0.1 <= result.interval_seconds <= 3600
        assert 0 <= result.simulate <= 512
        assert result.color in ("auto", "always", "never")
    else:
        assert result


@pytest.mark.process
def test_importing_the_settings_loads_nothing_heavy() -> None:
    code = (
        "import sys, andon.settings.resolution; "
        "print('tomllib' in sys.modules, 'difflib' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False False"


@rows(
    "origin",
    ["*", "null", "http://*", "https://*.example.org", "http://a/", "http://a/b", "a.example",
     "ftp://a", "http://A", "http://u@a", "http://a:80", "https://a:443", "http://a:99999",
     "http://a?b", "http://a b", ""],
)  # fmt: skip
def test_an_origin_is_exact_or_a_mistake(origin: str) -> None:
    (found,) = mistakes(server_allow_origins=[origin])
    assert "exact origins" in found


@pytest.mark.parametrize(
    "origin", ["http://localhost:3000", "https://lab.example.org", "http://[::1]:8080"]
)
def test_an_exact_origin_is_allowed(origin: str) -> None:
    found = resolve(None, {}, {"server_allow_origins": [origin]}).settings
    assert found.server_allow_origins == (origin,)
