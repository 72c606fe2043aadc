"""The tools: which command each is, what an assistant may say, and the command line of a call."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from andon.errors import Invalid

MOST_CHARACTERS, LONGEST_LIST = 4096, 512
MOST_NUMBER = 1_000_000
_KINDS = {"string": str, "integer": int, "boolean": bool, "array": list}


class Parameter(Struct, frozen=True):
    """What an assistant may say: an option of the command, or without one its argument."""

    name: str
    about: str
    option: str = ""  # `--since`, or `-n` with a number behind it
    kind: str = "string"
    required: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        words = {"items": {"type": "string"}, "minItems": 1} if self.kind == "array" else {}
        least = {"minimum": 0} if self.kind == "integer" else {}
        return {"type": self.kind, "description": self.about, **words, **least}


class Tool(Struct, frozen=True):
    """A command as a tool. `json` are the words that make it print JSON; `acts` is what it changes,
    empty for one that only reads."""

    name: str
    command: str
    about: str
    parameters: tuple[Parameter, ...] = ()
    json: tuple[str, ...] = ("--json",)
    acts: str = ""
    ends: bool = False  # whether what it changes cannot be undone
    raw: bool = False  # whether it prints what programs have printed
    far: bool = True  # whether a server can be asked

    @property
    def description(self) -> str:
        return f"{self.about} Effect: {self.acts}" if self.acts else self.about

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        return {
            "type": "object",
            "properties": {one.name: one.schema for one in self.parameters},
            "required": [one.name for one in self.parameters if one.required],
            "additionalProperties": False,
        }


_DEVICE = Parameter("device", "A GPU: its index, 3:0, UUID or its prefix. Default: all.")
_SINCE = Parameter("since", "Start: 24h, 7d, yesterday, 'Fri 18:00'.", "--since")
_GPUS = Parameter("gpus", "How many GPUs: 2, 1..4 or all.", "--gpus")
_MEMORY = Parameter("memory", "Least free memory of each GPU: 20GiB.", "--memory")
_MODEL = Parameter("model", "Only GPUs of this model, such as H100.", "--model")
_RUN = Parameter("run", "Its id or a prefix of it, its name, or last.", required=True)
_NODE = Parameter("node", "Only this machine of the hub; nodes lists them.", "--node")

READING = (
    Tool("status", "status", "What each GPU does, who uses it, and which are free.", (_DEVICE,)),
    Tool(
        "free", "free", "Which GPUs are free to use, and why the others are not. Holds nothing.",
        (_GPUS, _MEMORY, _MODEL,
         Parameter("at", "Here: at a time to come: 2h, 'Fri 20:00'.", "--at"),
         Parameter("next", "Here: when the request can next be met.", "--next", "boolean")),
    ),
    Tool(
        "why", "why", "Why a GPU is hot, slow, full, loud or idle, or why a job waits; what to do.",
        (_DEVICE, Parameter("job", "Explain why this job waits instead.", "--job")),
    ),
    Tool("who", "who", "Who uses and holds the GPUs now, and used them since a time.", (_SINCE,)),
    Tool("leases", "leases", "Who holds which GPUs until when, and who waits for them."),
    Tool("reservations", "reservations", "What is reserved for a time to come, and by whom."),
    Tool("alerts", "alerts", "What is wrong with the GPUs, and what to do about it.", (_DEVICE,)),
    Tool(
        "history", "history", "Past readings of a GPU or of the machine, or who used it.",
        (Parameter("device", "A GPU as in status, or host."), _SINCE,
         Parameter("until", "End: 2h, 'today 9:00'.", "--until"),
         Parameter("metric", "Readings, with commas: utilization_percent,power_watts.", "--metric"),
         Parameter("points", "Number of intervals.", "--points", "integer"),
         Parameter("who", "Who used it, instead of readings.", "--who", "boolean")),
    ),
    Tool(
        "runs_list", "runs", "Recorded runs, newest first: how they ended and what they used.",
        (_SINCE, Parameter("name", "Only runs of this name; * is a wildcard.", "--name"),
         Parameter("tag", "Only runs with this tag.", "--tag"),
         Parameter("group", "Only runs of this group.", "--group"),
         Parameter("state", "Only in this state: running, succeeded, failed.", "--state"),
         Parameter("most", "The newest so many.", "-n", "integer")),
    ),
    Tool("runs_report", "runs report", "What a run used, and what could be better.", (_RUN,)),
    Tool(
        "runs_compare", "runs compare", "Runs side by side: which is faster, and what differs.",
        (Parameter("sides", "Two or more: ids of runs, or names that mean all such runs.",
                   kind="array", required=True),),
    ),
    Tool(
        "jobs", "jobs", "Your jobs: running, waiting and why, the last that ended.",
        (Parameter("state", "Only in this state: waiting, running, failed.", "--state"),
         Parameter("group", "Only jobs of this group.", "--group"),
         Parameter("all", "More of them, and the machine's queue.", "--all", "boolean")),
    ),
    Tool(
        "job_logs", "logs", "The end of a job's output.",
        (Parameter("job", "Its number or name; @ is the last one.", required=True),
         Parameter("lines", "The last so many lines.", "-n", "integer")),
        json=(), raw=True,
    ),
    Tool(
        "estimate", "estimate", "How much memory a model needs, and which GPUs it fits on.",
        (Parameter("model", "A name with its size such as llama-3-8b, or a folder of it here.",
                   required=True),
         Parameter("engine", "vllm, sglang, trtllm, transformers or training.", "--engine"),
         Parameter("tensor_parallel", "Tensor-parallel GPUs.", "--tp", "integer"),
         Parameter("context", "Length of the longest request, in tokens.", "--context", "integer"),
         Parameter("requests", "Concurrent requests of that length.", "--requests", "integer"),
         Parameter("quantization", "Of the weights: awq, gptq, fp8.", "--quantization"),
         Parameter("on_gpus", "GPUs that are not here: 4xH100, 2xA100-40GB.", "--on-gpus")),
    ),
    Tool("doctor", "doctor", "Whether drivers, permissions and andon are set up well.", far=False),
    Tool("checks", "checks", "Results of earlier checks: healthy, and as fast as it was?",
         (_DEVICE,)),
)  # fmt: skip
HUB = Tool("nodes", "nodes", "The machines of this hub: which are silent, in trouble, or free.")

SUBMIT = Tool(
    "submit", "submit", "Queues a command of yours, which starts when its GPUs are free.",
    (Parameter("command", "The program and its arguments, a word each.", kind="array",
               required=True),
     _GPUS, _MEMORY, _MODEL,
     Parameter("name", "Name of the job and its run.", "--name"),
     Parameter("at_most", "Stop it after this time: 2h.", "--for"),
     Parameter("begin", "Start no earlier than: 22:30, 'Fri 18:00'.", "--begin"),
     Parameter("after", "Start when this job has succeeded.", "--after")),
    json=(), acts="it runs on this machine as you, in the folder of this server.",
)  # fmt: skip
ACTING = (
    SUBMIT,
    Tool(
        "cancel", "cancel", "Cancels a job of yours.",
        (Parameter("job", "Its number or name.", required=True),),
        json=(), acts="a waiting job never starts; a running one is stopped.", ends=True,
    ),
    Tool(
        "release", "release", "Releases a lease of yours.",
        (Parameter("lease", "Its id, as leases shows it.", required=True),),
        json=(), acts="its holder is asked to stop, and its command with it.", ends=True,
    ),
    Tool(
        "reserve", "reserve", "Reserves GPUs for you for a time to come.",
        (Parameter("begin", "Start: 2h, 18:00, 'Fri 18:00'.", "--from", required=True),
         Parameter("length", "How long: 12h.", "--for", required=True),
         _GPUS, _MEMORY, _MODEL, Parameter("name", "What for; everyone sees it.", "--name")),
        json=(), acts="nobody else gets these GPUs in this time.",
    ),
)  # fmt: skip

_SUBMIT_THERE = replace(
    SUBMIT,
    parameters=(*SUBMIT.parameters, Parameter("folder", "Where it runs there.", "--folder")),
    acts="it runs on the server's machine, as who runs the server, in the home folder of that.",
)


def tools(url: str | None, acting: bool) -> list[Tool]:
    """Returns the tools: of this machine, or those that a server or hub can answer."""
    acts = ACTING if acting else ()
    if url is None:
        return [*READING, *acts]
    return [
        *map(_at_server, READING),
        HUB,
        *(_SUBMIT_THERE if one is SUBMIT else one for one in acts),
    ]


def _at_server(tool: Tool) -> Tool:
    if tool.far:
        return replace(tool, parameters=(*tool.parameters, _NODE))
    return replace(tool, about=f"Of the machine of this assistant, not of the server: {tool.about}")


def command_line(
    tool: Tool, arguments: Mapping[str, object], more: Sequence[str] = ()
) -> list[str]:
    """Returns the command line of a call, with the words `more` of every call. What is not a
    parameter, or not of its kind, is refused; no value can become an option."""
    known = {one.name: one for one in tool.parameters}
    lacking = [one.name for one in tool.parameters if one.required and one.name not in arguments]
    wrong = [f"{name[:40]!r} is not a parameter" for name in arguments if name not in known]
    wrong += [f"{name!r} is missing" for name in lacking]
    wrong += [
        f"{name!r} must be {_form(known[name])}"
        for name, value in arguments.items()
        if name in known and not _fits(known[name], value)
    ]
    if wrong:
        raise Invalid(f"{tool.name}: {'; '.join(wrong[:8])}", hint=f"it takes {_names(tool)}")
    options, values = list[str](), list[str]()
    for name, value in arguments.items():
        part = known[name]
        if part.kind == "boolean":
            options += [part.option] * bool(value)
        elif isinstance(value, list):
            values += value
        elif not part.option:
            values.append(str(value))
        else:
            joint = "=" if part.option.startswith("--") else ""
            options.append(f"{part.option}{joint}{value}")
    submits = tool.name == SUBMIT.name
    for word in values[:1] if submits else values:
        if word.startswith("-"):
            raise Invalid(f"{tool.name}: {word[:40]!r} looks like an option")
    end = ["--"] if submits else []  # what follows is a command, with options of its own
    return [*tool.command.split(), *more, *options, *end, *values]


def _fits(part: Parameter, value: object) -> bool:
    if part.kind == "integer":
        return type(value) is int and 0 <= value <= MOST_NUMBER
    if isinstance(value, list):
        texts = 0 < len(value) <= LONGEST_LIST and all(map(_is_text, value))
        return part.kind == "array" and texts
    if part.kind == "string":
        return _is_text(value) and value != ""
    return type(value) is _KINDS[part.kind]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MOST_CHARACTERS and "\0" not in value


def _form(part: Parameter) -> str:
    return {
        "integer": f"a whole number up to {MOST_NUMBER}",
        "array": f"a list of up to {LONGEST_LIST} texts",
        "boolean": "true or false",
    }.get(part.kind, f"a text of 1 to {MOST_CHARACTERS} characters")


def _names(tool: Tool) -> str:
    names: Sequence[str] = [one.name for one in tool.parameters]
    return ", ".join(names) or "no parameters"
