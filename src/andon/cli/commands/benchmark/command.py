"""`andon benchmark`: drives a load at a server, and says how fast it answers at what cost."""

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from andon.api.benchmark import BenchmarkResult, devices_of, order_of, result_json, run_load
from andon.api.served_model import only_model
from andon.cli.commands.jobs.common import wait_for_all
from andon.cli.commands.jobs.desks import queue_desk
from andon.cli.commands.jobs.from_file import file_batches
from andon.cli.commands.jobs.submit import is_job_file, submit_all
from andon.cli.commands.runs.baseline import compare_with, refuse_missing
from andon.cli.commands.runs.compare import show_group
from andon.cli.options import chosen, duration, set_variable, shared, whole
from andon.cli.show.reports.benchmark import render_benchmark
from andon.cli.terminal import Choices, Terminal, notice
from andon.errors import Denied, Gone, Invalid
from andon.jobs.file import read_job_file
from andon.model.job.desk import JobAct
from andon.model.job.facts import JobState
from andon.units import sh
from andon.work.load.driver import GenaiBenchLoad, find_tool
from andon.work.rules.genai_bench import command_of, each_load
from andon.work.rules.load import LoadOrder

KEY_VARIABLE = "BENCHMARK_API_KEY"
MOST_LOADS = 100
SCHEMA, RANKED_BY = "andon.benchmark/1", "tokens_per_second"


@click.command()
@click.argument("url", metavar="URL|FILE", required=False)
@click.option("--model", metavar="NAME", help="The model to ask for [the only one].")
@click.option("--rate", metavar="N,…", help="Requests a second, whatever the server does.")
@click.option("--concurrency", metavar="N,…", help="Requests at a time instead.")
@click.option("--constant", is_flag=True, help="Evenly spaced requests; else a Poisson process.")
@click.option("--seconds", type=duration, metavar="TIME", help="Length of each load [60s].")
@click.option("--requests", type=whole, metavar="N", help="Requests of each load instead.")
@click.option("--warm-up", type=whole, metavar="N", help="Requests before each load.")
@click.option(
    "--input-tokens",
    type=whole,
    default=128,
    metavar="N",
    help="Length of made prompts [default: 128].",
)
@click.option("--output-tokens", type=whole, metavar="N", help="Longest answer.")
@click.option("--prompts", metavar="FILE", help="Prompts of a file instead, one on each line.")
@click.option("--completions", is_flag=True, help="Ask /completions, not /chat/completions.")
@click.option("--no-stream", is_flag=True, help="Ask for whole answers.")
@click.option("--key-file", metavar="FILE", help=f"The key [the variable {KEY_VARIABLE}].")
@click.option("--timeout", type=duration, metavar="TIME", help="Of one request [600s].")
@click.option("--seed", type=int, default=0, metavar="N", help="Of prompts and arrivals.")
@click.option(
    "--clients", type=whole, default=1, metavar="N", help="Client processes [default: 1]."
)
@click.option("--tool", type=click.Choice(["genai-bench"]), help="Another client [andon's own].")
@click.option("--tokenizer", metavar="NAME", help="With --tool: name or folder [the model's].")
@click.option("--slo", multiple=True, metavar="NAME=TIME", help="Goodput: first-token=500ms.")
@click.option("--devices", metavar="DEVICE,…", help="Devices of the server [found by its port].")
@click.option("--name", default="benchmark", metavar="NAME", help="Name of the runs.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Tag the runs.")
@click.option("--baseline", metavar="NAME", help="Compare with this baseline; exit 1 on drift.")
@click.option("--resume", metavar="GROUP", help="Run again what of a group did not succeed.")
@click.option("--json", "as_json", is_flag=True, help=f"Print {SCHEMA}.")
@shared
def benchmark(url: str | None, **options: Any) -> int:
    """Drive a load at a server that answers like OpenAI's: andon benchmark http://127.0.0.1:8000/v1

    Each rate or concurrency is a load of its own, and a run. Times count from the planned send, so
    that a queue before the server is seen. Ctrl-C stops the load and keeps its figures. With a job
    file that has a [server], andon starts it for each combination of parameters.
    """
    choices = chosen()
    if options["resume"] is not None:
        return _resumed(choices, options["resume"])
    if url is None or (is_job_file(url) and "://" not in url):
        return _of_file(choices, url)
    if choices.simulate is not None:
        set_variable("ANDON_SIMULATE", str(choices.simulate))
    if options["baseline"] is not None:
        refuse_missing(options["baseline"])  # before a load that nothing could be compared with

    loads = _loads(options)
    if options["model"] is None:
        options["model"] = only_model(url, loads[0]["key"])
        notice(f"the only model of the server: {options['model']}", choices)
    orders = [order_of(url, {**one, "model": options["model"]}) for one in loads]
    tool = _tool(options, orders)
    names = None if options["devices"] is None else options["devices"].split(",")
    devices = devices_of(url, names)
    if devices.reason:
        notice(f"no readings of devices: {devices.reason}", choices)
    group = options["name"] if len(orders) > 1 else None
    results: list[BenchmarkResult] = []
    try:
        for order in orders:
            params = {"rate": order.rate, "concurrency": order.concurrency, "model": order.model}
            run_load(
                order,
                devices,
                name=options["name"],
                params={name: plain(value) for name, value in params.items() if value is not None},
                group=group,
                tags=options["tags"],
                clients=options["clients"],
                tool=tool,
                finished=results.append,
            )
    finally:
        _show(choices, results, options["as_json"])
    if not any(one.measured.done for one in results):
        raise Gone(f"no request succeeded: {results[0].measured.example or 'see the table'}")
    return 0 if options["baseline"] is None else _drift(choices, options["baseline"], results)


def _tool(
    options: dict[str, Any], orders: list[LoadOrder]
) -> Callable[[LoadOrder], GenaiBenchLoad] | None:
    """Returns what opens a load with another client; None for our own."""
    if options["tool"] is None:
        if options["tokenizer"] is not None:
            raise click.UsageError("--tokenizer is for --tool")
        return None

    given = {"--clients": options["clients"] != 1, "--prompts": options["prompts"],
             "--warm-up": options["warm_up"]}  # fmt: skip
    if wrong := [name for name, value in given.items() if value]:
        raise click.UsageError(f"{wrong[0]} is for andon's own client")
    named, tokens = options["tokenizer"] or options["model"], options["input_tokens"]
    find_tool()
    for order in orders:
        command_of(order, named, tokens, "")  # before anything is recorded
    return lambda order: GenaiBenchLoad(order, named, tokens)


def _of_file(choices: Choices, path: str | None) -> int:
    """Queues the trials of a job file, waits for them, and shows their table."""
    if path is None:
        raise click.UsageError("name a URL, a job file with a [server], or --resume GROUP")

    jobs = read_job_file(path)
    if any(job.server is None for job in jobs):
        raise Invalid(f"{path} has a job without a [server]", hint=f"andon submit {sh(path)}")
    batches = file_batches(choices, path, {"yes": True})
    code = submit_all(choices, batches, dry_run=False, wait=True)
    for group in dict.fromkeys(job.spec.group or job.spec.name for job in jobs):
        show_group(choices, group, RANKED_BY)
    return code


def _resumed(choices: Choices, group: str) -> int:
    """Runs the jobs of a group again that did not succeed, waits, and shows the table."""
    desk = queue_desk(choices)
    jobs = [one for one in desk.listing().views if one.group == group]
    if not jobs:
        raise Gone(f"there is no group {group[:40]!r}", hint="andon jobs --all lists them")
    ended = [one for one in jobs if one.state.is_settled]
    desk.act(JobAct.RETRY, [one.number for one in ended if one.state is not JobState.SUCCEEDED])
    on_failure = partial(notice, choices=choices)
    code = wait_for_all(desk, [one.number for one in jobs], on_failure=on_failure)
    show_group(choices, group, RANKED_BY)
    return code


def plain(value: float | str) -> float | str:
    """A whole number without its point."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _loads(options: dict[str, Any]) -> list[dict[str, Any]]:
    if (options["rate"] is None) == (options["concurrency"] is None):
        raise click.UsageError("use --rate or --concurrency")
    name = "concurrency" if options["rate"] is None else "rate"
    loads = each_load({**_spec(options), name: options[name].split(",")})
    if len(loads) > MOST_LOADS:
        raise Invalid(f"{len(loads)} loads; at most {MOST_LOADS}")
    return loads


def _spec(options: dict[str, Any]) -> dict[str, Any]:
    return {
        "model": options["model"],
        "constant": options["constant"],
        "seconds": options["seconds"] or (None if options["requests"] else 60.0),
        "requests": options["requests"],
        "warm_up": options["warm_up"] or 0,
        "input_tokens": options["input_tokens"],
        "output_tokens": options["output_tokens"],
        "prompts": () if options["prompts"] is None else prompts_in(options["prompts"]),
        "chat": not options["completions"],
        "stream": not options["no_stream"],
        "timeout": options["timeout"] or 600.0,
        "seed": options["seed"],
        "key": _key(options["key_file"]),
        "slo": options["slo"],
    }


def prompts_in(path: str) -> tuple[str, ...]:
    """Reads prompts, one on each line; a line of JSON may have a `prompt`."""
    try:
        lines = Path(path).read_bytes().decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise Invalid(f"{path} is not UTF-8 text", hint="save it as UTF-8") from None
    except OSError as exc:
        raise Invalid(f"{path} cannot be read: {exc.strerror}") from exc
    found = []
    for line in filter(str.strip, lines):
        prompt = line
        if line.lstrip().startswith("{"):
            try:
                prompt = json.loads(line)["prompt"]
            except (ValueError, KeyError, TypeError):
                prompt = line
        found.append(str(prompt))
    if not found:
        raise Invalid(f"{path} has no prompts", hint="write one on each line")
    return tuple(found)


def _key(path: str | None) -> str:
    if path is None:
        return os.environ.get(KEY_VARIABLE, "").strip()
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise Denied(f"the key in {path} cannot be read") from exc


def _show(choices: Choices, results: list[BenchmarkResult], as_json: bool) -> None:
    if not results:
        return
    terminal = Terminal.of(choices)
    if as_json:
        value = {"schema": SCHEMA, "loads": [result_json(one) for one in results]}
        terminal.show_json(value)
        return

    terminal.print(*render_benchmark(results, terminal.width))


def _drift(choices: Choices, name: str, results: list[BenchmarkResult]) -> int:
    """Compares each run with the baseline's runs; the exit code is 1 if a number drifts."""
    return compare_with(name, tuple(one.run for one in results if one.run is not None))
