"""`[clusters.NAME]`: what is read, what is refused, and what is never shown."""

from functools import partial

import pytest
from msgspec.structs import replace

from andon.app.clusters import cluster_named
from andon.app.desks import check_clusters, desk_named
from andon.errors import Invalid
from andon.model.job.desk import cluster_in
from andon.settings.clusters import ClusterSettings
from andon.settings.resolution import Settings, resolve
from tests.support.rows import rows

TEXT = """
[jobs]
on = "lab"
[clusters.lab]
kind = "batch"
timeout = "5s"
partition = "main"
options = ["--mem=64G"]
[clusters.a-2]
kind = "other"
"""


def found(text: str) -> Settings:
    return resolve(("andon.toml", text), {}, {}).settings


def mistakes(text: str) -> tuple[str, ...]:
    with pytest.raises(Invalid) as caught:
        found(text)
    return caught.value.mistakes


def test_each_table_is_a_cluster_with_the_options_of_its_kind() -> None:
    settings = found(TEXT)
    options = {"partition": "main", "options": ["--mem=64G"]}
    assert settings.clusters == (
        ClusterSettings("lab", "batch", 5.0, options),
        ClusterSettings("a-2", "other"),
    )
    assert settings.jobs_on == "lab"


def test_options_are_in_no_repr() -> None:
    settings = found('[clusters.lab]\nkind = "batch"\ntoken = "s3cret"\n')
    assert "s3cret" not in repr(settings)
    assert "lab" in repr(settings.clusters)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("clusters = 3", "write a table for each cluster: [clusters.NAME]"),
        ('[clusters]\nlab = "x"', "write a table for each cluster: [clusters.NAME]"),
        ("[clusters.lab]\nx = 1", "clusters.lab: kind is missing"),
        ("[clusters.lab]\nkind = 3", "clusters.lab.kind: 3 is not the name of a kind"),
        ('[clusters.here]\nkind = "x"', "'here' is not a name"),
        ('[clusters.Lab]\nkind = "x"', "'Lab' is not a name"),
        ('[clusters."a:b"]\nkind = "x"', "'a:b' is not a name"),
        ('[clusters.lab]\nkind = "x"\ntimeout = 0', "timeout: must be from 1 to 600"),
        ('[clusters.lab]\nkind = "x"\ntimeout = "soon"', "timeout: 'soon' is not a number"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, words: str) -> None:
    (mistake,) = mistakes(text)
    assert mistake.startswith("andon.toml: clusters")
    assert words in mistake


def test_all_mistakes_are_reported_at_once() -> None:
    assert len(mistakes("[clusters.A]\nkind = 3\n[clusters.b]\ntimeout = -1\n")) == 4


def test_an_unknown_cluster_is_refused_with_the_known_ones() -> None:
    with pytest.raises(Invalid) as caught:
        cluster_named(found(TEXT), "nowhere")
    assert caught.value.reason == "no cluster is named nowhere"
    assert caught.value.hint.startswith("configured: lab, a-2; without --on")
    check_clusters(replace(Settings(), jobs_on="here"))  # this machine is none, and may be set


@rows("on, setting, name", [
    (None, "", "here"), (None, "here", "here"), (None, "lab", "lab"), (None, "slurm", "slurm"),
    ("here", "lab", "here"), ("a-2", "lab", "a-2"), ("k8s", "", "k8s"),
])  # fmt: skip
def test_a_name_or_the_setting_says_which_desk_is_meant(
    on: str | None, setting: str, name: str
) -> None:
    settings = replace(found(TEXT), jobs_on=setting)
    desk = desk_named(on, lambda: settings, lambda: None)
    assert ("here" if desk is None else desk.name) == name


def test_a_desk_of_an_unknown_name_is_refused_whoever_named_it() -> None:
    for on, setting in (("gone", ""), (None, "gone")):
        settings = partial(replace, found(TEXT), jobs_on=setting)
        with pytest.raises(Invalid, match="no cluster is named gone"):
            desk_named(on, settings, lambda: None)


def test_only_a_name_and_an_id_are_a_job_of_a_cluster() -> None:
    words = {"lab:4711": "lab", "lab:4711_7": "lab", "lab:": "", "lab": "", ":4": "", "12": ""}
    assert {word: cluster_in(word) for word in words} == words
    assert cluster_in(12) == ""


def test_without_any_cluster_it_says_how_to_have_one() -> None:
    with pytest.raises(Invalid) as caught:
        cluster_named(Settings(), "lab\x1b")
    assert "\x1b" not in caught.value.reason
    assert "write [clusters.NAME]" in caught.value.hint
    assert "it runs on this machine" in caught.value.hint


def test_a_check_opens_every_cluster_and_names_each_that_cannot_be_used() -> None:
    with pytest.raises(Invalid) as caught:
        check_clusters(found(TEXT.replace('on = "lab"', 'on = "gone"')))
    first, second, third = caught.value.mistakes
    assert first.startswith("cluster lab: unknown kind of cluster: batch")
    assert second.startswith("cluster a-2: unknown kind of cluster: other")
    assert third.startswith("jobs.on: no cluster is named gone")
