"""Every command by the job it serves, with its line of help: what the overview needs, no more."""

from typing import NamedTuple


class Place(NamedTuple):
    """Where a command lives, and what the overview says of it."""

    job: str
    target: str
    help: str


JOBS = {
    "watch": "what the GPUs are doing",
    "explain": "why they do it",
    "share": "which GPU may be used, and when",
    "record": "what a run used",
    "fleet": "the same over many machines",
    "setup": "andon itself",
}

COMMANDS = {
    "status": Place("watch", "andon.cli.status:status", "One line per device, now."),
    "watch": Place("watch", "andon.cli.watch:watch", "A line per device and tick, for ever."),
    "ps": Place("watch", "andon.cli.ps:ps", "The processes on the devices, and whose they are."),
    "devices": Place("watch", "andon.cli.devices:devices", "The facts that do not change."),
    "exporter": Place("watch", "andon.cli.exporter:exporter", "The values for Prometheus."),
    "serve": Place("watch", "andon.cli.serve:serve", "A page, REST, live events and /metrics."),
    "open": Place("watch", "andon.cli.open:open_", "Sign a browser in to the server."),
    "history": Place("watch", "andon.cli.history:history", "What they did, and who was on them."),
    "why": Place("explain", "andon.cli.why:why", "Why it is hot, slow, full, loud or idle."),
    "alerts": Place("explain", "andon.cli.alerts:alerts", "What needs help, and what to do."),
    "free": Place("share", "andon.cli.free:free", "What could be had now, and why not the rest."),
    "run": Place("share", "andon.cli.run:run", "A command on devices that nobody else has."),
    "lease": Place("share", "andon.cli.lease:lease", "A shell, or a command, that holds devices."),
    "leases": Place("share", "andon.cli.leases:leases", "Who holds what, until when."),
    "release": Place("share", "andon.cli.leases:release", "Give a lease of yours back."),
    "wait": Place("share", "andon.cli.free:wait", "Until devices could be had; claims nothing."),
    "env": Place("share", "andon.cli.free:env", "Variables that choose devices, for eval."),
    "who": Place("share", "andon.cli.who:who", "Who uses and holds them."),
    "cordon": Place("share", "andon.cli.cordon:cordon", "Give a device to nobody."),
    "uncordon": Place("share", "andon.cli.cordon:uncordon", "Give it out again."),
    "setup": Place("setup", "andon.cli.setup:setup", "The machine's lease book, made by root."),
    "config": Place("setup", "andon.cli.config:config", "Check and show the settings."),
    "cost": Place("setup", "andon.cli.cost:cost", "What watching costs, beside nvidia-smi."),
    "doctor": Place("setup", "andon.cli.doctor:doctor", "What is wrong here, and how to mend it."),
    "selftest": Place("setup", "andon.cli.selftest:selftest", "Are the readings plausible?"),
    "gc": Place("setup", "andon.cli.gc:gc", "Pack the history and drop what is too old."),
    "seed": Place("setup", "andon.cli.seed:seed", "Fill a history with a simulated past."),
    "completion": Place("setup", "andon.cli.completion:completion", "The shell's completion."),
}

EXAMPLES = (
    ("andon", "what is going on here"),
    ("andon status --json | jq .devices", "the same for a script"),
    ("andon watch -i 500ms --out gpu.jsonl", "a record beside the work's outputs"),
    ("andon ps --user alice --sort gpu", "who keeps them busy"),
    ("andon --simulate 8", "a look without a GPU"),
)

EXIT_CODES = (
    (0, "fine"),
    (1, "failed"),
    (2, "usage or settings"),
    (3, "unavailable: no device, no driver"),
    (4, "denied"),
    (5, "gone"),
    (6, "conflict"),
    (75, "timed out"),
)
