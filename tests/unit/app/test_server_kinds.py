"""The lists of servers, of the agent and of the exporter: complete, of fitting types, in order."""

import ast
import inspect
import signal
import sys
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import pytest
from msgspec.structs import replace

from andon.app.parts import Part, check_needs, in_order, needs_of
from andon.app.servers import agent, exporter, serving
from andon.fleet.link import HubLink
from andon.settings.resolution import Settings
from andon.web.listening import ServeOptions

PLACE = ServeOptions("127.0.0.1", 0, lends_simulated=True)
HUB = "http://127.0.0.1:9"
SETTINGS = Settings(simulate=1)
IN_POSTGRES = replace(SETTINGS, history_store="postgresql:///andon")


def reread() -> Settings:
    return SETTINGS


SERVERS: dict[str, Callable[[], None]] = {
    "plain": lambda: serving.serve(SETTINGS, PLACE, print, reread),
    "without history": lambda: serving.serve(
        IN_POSTGRES, replace(PLACE, history=False), print, reread
    ),
    "with a hub": lambda: serving.serve(SETTINGS, replace(PLACE, hub=HUB), print, reread),
    "hub": lambda: serving.serve(IN_POSTGRES, PLACE, print, reread),
    "hub of a hub": lambda: serving.serve(IN_POSTGRES, replace(PLACE, hub=HUB), print, reread),
    "demo": lambda: serving.serve_demo(SETTINGS, PLACE, print),
}
STARTS = SERVERS | {
    "agent": lambda: agent.report_to(SETTINGS, HUB, print, threading.Event(), reread),
    "exporter": lambda: exporter.export(SETTINGS, print, print),
}


class Composition(NamedTuple):
    """What is opened, in this order, and what then runs."""

    parts: Sequence[Part]
    run: Callable[..., None]
    given: Mapping[str, object]

    @property
    def names(self) -> list[str]:
        return [part.__name__ for part in self.parts]


@pytest.fixture(scope="module")
def compositions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Composition]:
    """Those of all starts, of which each is caught where it would open its first part."""
    found: dict[str, Composition] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.setattr(signal, "signal", lambda *given: None)
        patch.setattr("andon.app.uplink.hub_link", lambda *given, **named: HubLink(HUB, "token"))
        patch.setattr(agent, "hub_link", lambda *given: HubLink(HUB, "token"))
        for name, start in STARTS.items():

            def caught(parts: Sequence[Part], run: Any, _name: str = name, **given: object) -> None:
                found[_name] = Composition(in_order(parts, given), run, given)

            for module in (serving, agent, exporter):
                patch.setattr(module, "run_with", caught)
            start()
    return found


def types_of(caller: Callable[..., object]) -> dict[str, Any]:
    """The types in a signature, also those that are imported for types alone."""
    module = sys.modules[caller.__module__]
    names: dict[str, Any] = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec("\n".join(map(ast.unparse, node.body)), names)
    return get_type_hints(caller, localns=names)


def fits(made: Any, wanted: Any) -> bool:
    """Whether a value of the one type may be given for the other."""
    unions = (Union, types.UnionType)
    if made == wanted or wanted is Any:
        return True
    if get_origin(made) in unions:
        return all(fits(one, wanted) for one in get_args(made))
    if get_origin(wanted) in unions:
        return any(fits(made, one) for one in get_args(wanted))
    if getattr(wanted, "_is_protocol", False):
        methods = [name for name, one in vars(wanted).items() if inspect.isfunction(one)]
        return all(hasattr(made, name) for name in methods if not name.startswith("_"))
    return isinstance(made, type) and isinstance(wanted, type) and issubclass(made, wanted)


def made_by(part: Part) -> Any:
    returned = types_of(part)["return"]
    return get_args(returned)[0] if inspect.isgeneratorfunction(part) else returned


@pytest.mark.parametrize("name", STARTS)
def test_every_need_is_met_and_of_a_fitting_type(
    compositions: dict[str, Composition], name: str
) -> None:
    parts, run, given = compositions[name]
    made = {part.__name__: made_by(part) for part in parts}
    check_needs(run, {*made, *given})
    wrong = []
    for caller in (*parts, run):
        for need, wanted in types_of(caller).items():
            if need in made and not fits(made[need], wanted):
                wrong.append(f"{caller.__name__} needs {need}: {wanted}, which is {made[need]}")
            value = given.get(need, made)
            if value is not made and not (callable(value) or fits(type(value), wanted)):
                wrong.append(f"{caller.__name__} needs {need}: {wanted}, which is {value!r}")
    assert wrong == []


@pytest.mark.parametrize("name", STARTS)
def test_what_a_part_returns_can_be_closed(compositions: dict[str, Composition], name: str) -> None:
    for part in compositions[name].parts:
        made = made_by(part)
        kinds = get_args(made) if get_origin(made) in (Union, types.UnionType) else (made,)
        if not inspect.isgeneratorfunction(part):
            assert all(hasattr(one, "close") for one in kinds if one is not types.NoneType), part


def test_what_may_be_missing_is_there_in_some_list(compositions: dict[str, Composition]) -> None:
    there, may_miss = set[str](), set[str]()
    for one in compositions.values():
        there |= {*one.names, *one.given}
        for caller in (*one.parts, one.run):
            may_miss |= {name for name, must_be in needs_of(caller).items() if not must_be}
    assert len(may_miss) > 10
    assert may_miss - there == set()


def test_types_that_do_not_fit_are_found() -> None:
    assert fits(bool, int | None)
    assert fits(Path, Path | None)
    assert not fits(Path | None, Path)
    assert not fits(str, int)
    assert not fits(Callable[[], str], Callable[[], int])


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_begins_with_what_may_be_refused(
    compositions: dict[str, Composition], name: str
) -> None:
    """Another server, a port in use: no device is read before. Nothing is kept before names in the
    settings are known to be of one device each."""
    wanted = "sole_server listening sampler first_snapshot distinct_names history application"
    found = [one for one in compositions[name].names if one in wanted.split()]
    assert " ".join(found) == wanted


def test_the_kinds_differ_in_their_lists(compositions: dict[str, Composition]) -> None:
    def beyond(name: str, other: str) -> set[str]:
        return set(compositions[name].names) - set(compositions[other].names)

    assert beyond("with a hub", "plain") == {"past", "uplink"}
    assert beyond("hub of a hub", "hub") == {"past", "uplink"}
    nodes = {"fleet", "fleet_alerts", "leader_duties", "everywhere", "own_reports"}
    nodes |= {"reported_nodes"}
    assert beyond("hub", "plain") == nodes
    assert beyond("plain", "hub") == set()
    assert compositions["plain"].parts == compositions["without history"].parts
    assert {"rest_socket", "exports", "usage_meter", "dispatcher_guard"} <= beyond("plain", "demo")
    assert beyond("agent", "with a hub") == {"pod_devices"}
    assert beyond("exporter", "plain") == {"metrics_port"}
