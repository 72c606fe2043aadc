"""`run_benchmark_job`: a load on a server, with the readings of its devices, recorded as a run."""

import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from andon.api import watch as library
from andon.api.compat.monitor import get_gpu_monitor
from andon.api.run import RecordedRun, chosen_devices, why_no_device
from andon.api.served_model import only_model
from andon.errors import AndonError, Invalid
from andon.host.port_listeners import listening_pids
from andon.host.processes.procfs import ancestry
from andon.model.codec import MOST_WHOLE
from andon.model.naming import device_labels
from andon.model.run.record import ItemState, RunKind
from andon.model.run.use import mean_of, sum_of
from andon.model.shapes import to_json
from andon.runs.rules.reports.report import JOULES_PER_KWH
from andon.runs.rules.reports.sweep import parse_limit
from andon.work.load.driver import DrivenLoad, GenaiBenchLoad
from andon.work.rules.genai_bench import each_load
from andon.work.rules.load import (
    MOST_LINES,
    MOST_RATE,
    MOST_REQUESTS,
    ClientEnd,
    LoadFigures,
    LoadOrder,
    RequestResult,
    figures_of,
    made_prompts,
    positive,
    route_of,
    values_of_load,
)

MADE_PROMPTS, MOST_TOKENS = 256, 1_000_000
LOCAL = ("127.0.0.1", "::1", "localhost")
FAR = "the server is on another machine: name its devices with --devices, if they are of this one"
WINDOW_SECONDS = 1.0
THIN = 10  # beyond MOST_LINES, of so many requests one has a line


class DevicesUnderTest(Struct, frozen=True):
    """The devices of a server, or why they are not known."""

    uuids: tuple[str, ...] = ()
    reason: str | None = None


class BenchmarkResult(Struct, frozen=True):
    """One load: what it showed, and what its devices did meanwhile."""

    measured: LoadFigures
    run: str | None
    devices: int
    utilization_percent: float | None = None
    energy_joules: float | None = None
    gpu_monitoring: Mapping[str, Any] | None = None
    reason: str | None = None  # why nothing of the devices is known
    price_per_kwh: float | None = None

    @property
    def joules_per_token(self) -> float | None:
        if self.energy_joules is None or not self.measured.tokens:
            return None
        return self.energy_joules / self.measured.tokens

    @property
    def per_device(self) -> float | None:
        return self.measured.tokens_per_second / self.devices if self.devices else None

    @property
    def cost(self) -> float | None:
        if self.energy_joules is None or self.price_per_kwh is None:
            return None
        return self.energy_joules / JOULES_PER_KWH * self.price_per_kwh


def devices_of(url: str, named: Collection[int | str] | None) -> DevicesUnderTest:
    """Finds the devices of a server: those that are named, else those of the processes that
    listen at this machine's port."""
    try:
        snapshot = library.shared().once(with_host=False)
    except AndonError as error:
        return DevicesUnderTest((), error.reason)
    if not snapshot.devices:
        return DevicesUnderTest((), why_no_device(snapshot))
    if named is not None:
        names = [int(one) if str(one).isdecimal() else one for one in named]
        return DevicesUnderTest(tuple(chosen_devices(snapshot, names)))
    parts = urlsplit(url)
    if parts.hostname not in LOCAL:
        return DevicesUnderTest((), FAR)
    address = "::1" if parts.hostname == "::1" else "127.0.0.1"
    servers = listening_pids(address, parts.port or (443 if parts.scheme == "https" else 80))
    if not servers:
        return DevicesUnderTest((), "the process of the server cannot be found: use --devices")
    uuids = [
        status.device.uuid
        for status in snapshot.devices
        if any(servers & ancestry(process.pid) for process in status.processes)
    ]
    if not uuids:
        return DevicesUnderTest((), "the server's process is on no device: use --devices")
    return DevicesUnderTest(tuple(uuids))


def run_load(
    order: LoadOrder,
    devices: DevicesUnderTest,
    *,
    name: str = "benchmark",
    params: Mapping[str, Any] | None = None,
    group: str | None = None,
    tags: Sequence[str] = (),
    clients: int = 1,
    tool: Callable[[LoadOrder], "GenaiBenchLoad"] | None = None,
    finished: Callable[[BenchmarkResult], None] = lambda result: None,
) -> BenchmarkResult:
    """Drives one load and records it. Its client is andon's, unless `tool` opens another. Ctrl-C
    and SIGTERM stop the load: `finished` gets what came back until then, and KeyboardInterrupt
    follows."""
    record = RecordedRun(
        name,
        params,
        tags,
        devices.uuids,
        kind=RunKind.BENCHMARK,
        quiet=True,
        group=group,
        unsampled=None if devices.uuids else devices.reason,
    )
    monitor = get_gpu_monitor().start_monitoring() if devices.uuids else None
    with ExitStack() as stack:
        if monitor is not None:
            stack.callback(monitor.stop)  # also if the load cannot begin
        stack.enter_context(record)
        first = dict[str, Mapping[str, Any]]()  # what was used when the load began
        begun = lambda: first.update(record.used())  # noqa: E731 - called once
        load = DrivenLoad(order, clients, begun) if tool is None else tool(order)
        with _stopped_by_signals(load) as came:
            windows = _LoadWindows(record, order)
            found = load.run(lambda one: windows.took(len(load.results), one))
        used = _used(record, devices, found.seconds, first)
        monitored = None if monitor is None else _of_devices(monitor.stop(), devices.uuids)
        result = _result(found, record.id, used, monitored, devices)
        values = values_of_load(found)
        if result.joules_per_token is not None:
            values["joules_per_token"] = result.joules_per_token
        record.log(**values)
        for kind, count in found.errors.items():
            record.event(f"errors: {kind}", count=count, example=found.example)
        finished(result)
        if came:
            raise KeyboardInterrupt
        if not found.done:
            record.end(SystemExit(1))  # a failure for those who compare runs; callers get figures
    return result


def _used(
    record: RecordedRun,
    devices: DevicesUnderTest,
    seconds: float,
    first: Mapping[str, Mapping[str, Any]],
) -> dict[str, dict[str, Any]]:
    """Returns what the devices used during the load alone: clients start before it, and a last
    reading comes after it. Nothing of another tool, which does not say when its load begins."""
    began = max((one["held_seconds"] for one in first.values()), default=None)
    used = {} if began is None else record.used(began + seconds)
    found = {uuid: dict(one) for uuid, one in used.items() if uuid in devices.uuids}
    for uuid, one in found.items():
        if one.get("energy_joules") is not None:
            before = first.get(uuid, {}).get("energy_joules") or 0.0
            one["energy_joules"] = max(0.0, one["energy_joules"] - before)
    return found


class _LoadWindows:
    """Records each request of a load, and its figures over a second at a time."""

    def __init__(self, record: RecordedRun, order: LoadOrder) -> None:
        self._record, self._order = record, order
        self._began, self._results = time.monotonic(), list[RequestResult]()

    def took(self, count: int, one: RequestResult) -> None:
        if count <= MOST_LINES or count % THIN == 0:
            result = f"{one.tokens} tokens" if one.error is None else f"{one.error} {one.detail}"
            first = "" if one.first is None else f", first after {one.first:.4f} s"
            state = ItemState.OK if one.error is None else ItemState.FAILED
            self._record.item(
                f"request {count}", state, index=count, runtime_seconds=one.total,
                output=f"{result}{first}, sent {one.delay:.4f} s late"[:500],
            )  # fmt: skip
        self._results.append(one)
        now = time.monotonic()
        if now - self._began >= WINDOW_SECONDS:
            lasted = ClientEnd((), now - self._began)
            self._record.log(**values_of_load(figures_of(self._order, self._results, [lasted])))
            self._began, self._results = now, []


@contextmanager
def _stopped_by_signals(load: DrivenLoad | GenaiBenchLoad) -> Iterator[list[int]]:
    """Lets Ctrl-C and SIGTERM end the load; yields the signals that came."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return

    def stop(number: int, frame: object) -> None:
        came.append(number)
        load.interrupt()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _of_devices(found: Mapping[str, Any], uuids: Sequence[str]) -> Mapping[str, Any] | None:
    """What the monitor found, of these devices alone."""
    snapshot = library.shared().once(with_host=False)

    labels = device_labels(snapshot.devices)
    wanted = {labels[uuid] for uuid in uuids if uuid in labels}
    stats = {label: one for label, one in found["gpu_stats"].items() if label in wanted}
    return {**found, "gpu_stats": stats} if stats else None


def _result(
    found: LoadFigures,
    run: str | None,
    used: Mapping[str, Mapping[str, Any]],
    monitored: Mapping[str, Any] | None,
    devices: DevicesUnderTest,
) -> BenchmarkResult:
    price = library.shared().settings.runs_price_per_kwh or None
    return BenchmarkResult(
        found,
        run,
        len(devices.uuids),
        mean_of(used.values(), "utilization_percent"),
        sum_of(used.values(), "energy_joules") if len(used) == len(devices.uuids) else None,
        monitored,
        devices.reason if monitored is None else None,
        price,
    )


def order_of(url: str, spec: Mapping[str, Any]) -> LoadOrder:
    """Returns what is asked of the clients; raises Invalid for a mistake in the specification. A
    model that is not named is the server's only one."""
    key = str(spec.get("key", ""))
    model = spec.get("model") or only_model(url, key)
    if not isinstance(model, str):
        raise Invalid("the benchmark names no model", hint='write "model": "NAME"')
    rate, at_once = spec.get("rate"), spec.get("concurrency")
    if (rate is None) == (at_once is None):
        raise Invalid("a load has either a rate or a concurrency")
    seconds, requests = spec.get("seconds"), spec.get("requests")
    if seconds is None and requests is None:
        raise Invalid("a load needs seconds or requests to end")
    seed = _whole(spec, "seed", 0, -MOST_WHOLE, MOST_WHOLE)
    prompts = spec.get("prompts") or ()
    if isinstance(prompts, str) or not all(isinstance(one, str) for one in prompts):
        raise Invalid("prompts are no list of texts", hint='"prompts": ["Why is the sky blue?"]')
    if not prompts:
        chance = Random(seed).random  # noqa: S311 - prompts, not secrets
        length = _whole(spec, "input_tokens", 128, 0, MOST_TOKENS)
        prompts = made_prompts(MADE_PROMPTS, length, chance)
    try:
        "".join((url, model, key, *prompts)).encode()
    except UnicodeEncodeError:  # arguments may be any bytes
        raise Invalid("the URL, the model, the key or a prompt is not UTF-8 text") from None
    tokens = spec.get("output_tokens")
    return LoadOrder(
        route_of(url, spec.get("chat", True)),
        model,
        tuple(prompts),
        None if rate is None else positive(str(rate), MOST_RATE, "a rate"),
        bool(spec.get("constant", False)),
        None if at_once is None else int(positive(str(at_once), 10_000, "a number of requests")),
        None if seconds is None else positive(str(seconds), 1e7, "a duration"),
        None if requests is None else int(positive(str(requests), MOST_REQUESTS, "a number")),
        _whole(spec, "warm_up", 0, 0, MOST_REQUESTS),
        None if tokens is None else int(positive(str(tokens), MOST_TOKENS, "a number of tokens")),
        bool(spec.get("stream", True)),
        positive(str(spec.get("timeout", 600)), 1e6, "a duration"),
        seed,
        key,
        {limit.name: limit.seconds for limit in map(parse_limit, spec.get("slo") or ())},
    )


def _whole(spec: Mapping[str, Any], name: str, usual: int, low: int, most: int) -> int:
    """Returns a whole number of a specification; raises Invalid if it is none in these limits."""
    found = spec.get(name, usual)
    try:
        number = int(found)
    except (TypeError, ValueError, OverflowError):
        number = low - 1
    if not low <= number <= most:
        reason = f"{name} is {str(found)[:40]!r}, not a whole number that a load can have"
        raise Invalid(reason, hint=f"{name}: {usual}")
    return number


def run_benchmark_job(
    endpoint_url: str,
    benchmark_spec: Mapping[str, Any],
    gpu_indices: Collection[int] | None = None,
) -> dict[str, Any]:
    """Drives a load at a server that answers like OpenAI's and returns what it showed.

    `benchmark_spec` has `model` (if the server has several), `rate` (requests a second) or
    `concurrency`, `seconds` or `requests`, and if wanted `input_tokens`, `output_tokens`,
    `prompts`, `stream`, `timeout`, `warm_up`, `seed`, `key`, `slo`, `name`; genai-bench's words
    are known, too. With a list of rates the answer is the last load's, and `loads` has them all.
    `gpu_monitoring` in the answer is what `GPUMonitor.stop_monitoring` returns of the devices, or
    None where nothing can be read; the benchmark runs all the same.
    """
    orders = [order_of(endpoint_url, one) for one in each_load(benchmark_spec)]
    devices = devices_of(endpoint_url, gpu_indices)
    name = str(benchmark_spec.get("name", "benchmark"))
    clients = _whole(benchmark_spec, "clients", 1, 1, MOST_WHOLE)
    found = [result_json(run_load(one, devices, name=name, clients=clients)) for one in orders]
    return found[0] if len(found) == 1 else {**found[-1], "loads": found}


def result_json(found: BenchmarkResult) -> dict[str, Any]:
    figures: dict[str, Any] = to_json(found.measured)
    return {
        **figures,
        "client_bound": found.measured.client_bound,
        "run": found.run,
        "devices": found.devices,
        "tokens_per_second_per_device": found.per_device,
        "utilization_percent": found.utilization_percent,
        "energy_joules": found.energy_joules,
        "joules_per_token": found.joules_per_token,
        "cost": found.cost,
        "gpu_monitoring": found.gpu_monitoring,
        "gpu_monitoring_reason": found.reason,
        "faults": get_gpu_monitor().faults(),
    }
