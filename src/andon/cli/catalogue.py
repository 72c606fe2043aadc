"""Every command by the job it serves, with its line of help: what the overview needs, no more."""

from typing import NamedTuple


class CommandEntry(NamedTuple):
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
    "status": CommandEntry(
        "watch", "andon.cli.commands.watch.status:status", "One line per device, now."
    ),
    "watch": CommandEntry(
        "watch", "andon.cli.commands.watch.watch:watch", "A line per device and tick, for ever."
    ),
    "ps": CommandEntry(
        "watch",
        "andon.cli.commands.watch.ps:ps",
        "The processes on the devices, and whose they are.",
    ),
    "devices": CommandEntry(
        "watch", "andon.cli.commands.watch.devices:devices", "The facts that do not change."
    ),
    "exporter": CommandEntry(
        "watch", "andon.cli.commands.watch.exporter:exporter", "The values for Prometheus."
    ),
    "serve": CommandEntry(
        "watch", "andon.cli.commands.watch.serve:serve", "A page, REST, live events and /metrics."
    ),
    "open": CommandEntry(
        "watch", "andon.cli.commands.watch.open:open_", "Sign a browser in to the server."
    ),
    "history": CommandEntry(
        "watch", "andon.cli.commands.watch.history:history", "What they did, and who was on them."
    ),
    "why": CommandEntry(
        "explain", "andon.cli.commands.explain.why:why", "Why it is hot, slow, full, loud or idle."
    ),
    "alerts": CommandEntry(
        "explain", "andon.cli.commands.explain.alerts:alerts", "What needs help, and what to do."
    ),
    "free": CommandEntry(
        "share",
        "andon.cli.commands.share.free:free",
        "What could be had now, and why not the rest.",
    ),
    "run": CommandEntry(
        "share", "andon.cli.commands.share.run:run", "A command on devices that nobody else has."
    ),
    "lease": CommandEntry(
        "share",
        "andon.cli.commands.share.lease:lease",
        "A shell, or a command, that holds devices.",
    ),
    "leases": CommandEntry(
        "share", "andon.cli.commands.share.leases:leases", "Who holds what, until when."
    ),
    "release": CommandEntry(
        "share", "andon.cli.commands.share.leases:release", "Give a lease of yours back."
    ),
    "wait": CommandEntry(
        "share", "andon.cli.commands.share.free:wait", "Until devices could be had; claims nothing."
    ),
    "env": CommandEntry(
        "share", "andon.cli.commands.share.free:env", "Variables that choose devices, for eval."
    ),
    "who": CommandEntry("share", "andon.cli.commands.share.who:who", "Who uses and holds them."),
    "cordon": CommandEntry(
        "share", "andon.cli.commands.share.cordon:cordon", "Give a device to nobody."
    ),
    "uncordon": CommandEntry(
        "share", "andon.cli.commands.share.cordon:uncordon", "Give it out again."
    ),
    "setup": CommandEntry(
        "setup", "andon.cli.commands.setup.setup:setup", "The machine's lease book, made by root."
    ),
    "config": CommandEntry(
        "setup", "andon.cli.commands.setup.config:config", "Check and show the settings."
    ),
    "cost": CommandEntry(
        "setup", "andon.cli.commands.setup.cost:cost", "What watching costs, beside nvidia-smi."
    ),
    "doctor": CommandEntry(
        "setup", "andon.cli.commands.setup.doctor:doctor", "What is wrong here, and how to mend it."
    ),
    "selftest": CommandEntry(
        "setup", "andon.cli.commands.setup.selftest:selftest", "Are the readings plausible?"
    ),
    "gc": CommandEntry(
        "setup", "andon.cli.commands.setup.gc:gc", "Pack the history and drop what is too old."
    ),
    "seed": CommandEntry(
        "setup", "andon.cli.commands.setup.seed:seed", "Fill a history with a simulated past."
    ),
    "completion": CommandEntry(
        "setup", "andon.cli.commands.setup.completion:completion", "The shell's completion."
    ),
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
