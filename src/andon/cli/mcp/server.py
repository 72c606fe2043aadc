"""The server on standard input and output, by the official SDK; its only module that imports it."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as ToolDescription

from andon.cli.mcp.calling import DATA, Calls, CommandOutput, as_text, as_value
from andon.cli.mcp.far import FarActs
from andon.cli.mcp.tools import Tool, command_line
from andon.errors import AndonError, Gone, Invalid
from andon.host.state.node_folder import open_node_folder
from andon.host.users import user_name
from andon.leases.own import own_leases
from andon.model.redaction import redact
from andon.version import __version__
from andon.web.transport.audit import Audit

INSTRUCTIONS = (
    "andon answers about the GPUs of a machine: what they do, which are free, why one is slow, "
    "what runs and jobs used, whether a model fits. Begin with status or free. " + DATA
)


LONGEST_SUBJECT = 200


class Assistant:
    """Answers the calls of one assistant by the command lines of its tools."""

    def __init__(
        self, tools: Sequence[Tool], more: Sequence[str], calls: Calls, far: FarActs | None = None
    ) -> None:
        """`more` are words of every command line: which machine is meant. `far` acts there."""
        self._tools = {one.name: one for one in tools}
        self._more, self._calls, self._far = list(more), calls, far

    async def listed(self, context: Any, given: Any) -> ListToolsResult:
        return ListToolsResult(tools=[_described(one) for one in self._tools.values()])

    async def called(self, context: Any, given: CallToolRequestParams) -> CallToolResult:
        try:
            if (tool := self._tools.get(given.name)) is None:
                raise Gone(f"there is no tool {given.name[:60]!r}", hint=", ".join(self._tools))
            words = command_line(tool, given.arguments or {}, self._more_of(tool))
            answer = partial(self._read, tool, words)
            if tool.acts:
                acts = self._act if self._far is None else self._act_at_server
                answer = partial(acts, tool, words, given.arguments or {})
            return await anyio.to_thread.run_sync(answer, abandon_on_cancel=True)
        except AndonError as error:
            return _refused(error)

    def _more_of(self, tool: Tool) -> Sequence[str]:
        """A tool that no server can answer is about this machine."""
        named = any(word.startswith("--url=") for word in self._more)
        return () if named and not tool.far else self._more

    def _read(self, tool: Tool, words: list[str]) -> CallToolResult:
        """Runs the command for its text and its JSON at the same time."""
        at = len(tool.command.split())
        text = self._calls.begin(words)
        value = self._calls.begin([*words[:at], *tool.json, *words[at:]]) if tool.json else None
        printed = text()
        structured = as_value(
            words, value() if value is not None else CommandOutput(printed.code, "", "")
        )
        return _result(tool, words, printed, structured)

    def _act(self, tool: Tool, words: list[str], _: Mapping[str, Any]) -> CallToolResult:
        """Does what was asked, with a line in the audit before and after; not if that fails."""
        refuse_others(tool, words[-1])
        audit = Audit(open_node_folder())
        user, number = user_name(os.getuid()), f"mcp-{os.getpid()}-{os.urandom(4).hex()}"
        facts = {"user": user, "uid": os.getuid(), "peer": "mcp"}
        subject = redact(words[1:])[:LONGEST_SUBJECT]
        audit.write("requested", id=number, action=tool.name, subject=subject, **facts)
        printed = self._calls.begin(words)()
        status = 200 if printed.code == 0 else 408 if printed.code is None else 400
        audit.write("done", id=number, status=status)
        return _result(tool, words, printed, as_value(words, CommandOutput(printed.code, "", "")))

    def _act_at_server(
        self, tool: Tool, words: list[str], arguments: Mapping[str, Any]
    ) -> CallToolResult:
        """Does what was asked at a server, which writes it to its own audit."""
        assert self._far is not None
        if tool.name == "release":
            self._far.refuse_others(words[-1])
        elif tool.name == "cancel":
            refuse_others(tool, words[-1])
        printed = self._calls.begin(words, self._far.work(tool.name, arguments))()
        return _result(tool, words, printed, as_value(words, printed))


def refuse_others(tool: Tool, name: str) -> None:
    """Refuses what may not be this user's, whatever rights the user has besides: other leases, and
    jobs of a cluster. The queue of this machine is the user's own."""
    if tool.name == "cancel" and ":" in name:
        raise Invalid("only jobs of this machine's queue", hint="andon cancel, in a terminal")
    if tool.name == "release" and name not in [one.id for one in own_leases()]:
        raise Gone(f"you hold no lease {name[:40]!r}", hint="leases shows yours")


def _described(tool: Tool) -> ToolDescription:
    return ToolDescription(
        name=tool.name,
        description=tool.description,
        input_schema=tool.schema,
        annotations=ToolAnnotations(
            title=f"andon {tool.command}",
            read_only_hint=not tool.acts,
            destructive_hint=tool.ends,
            idempotent_hint=not tool.acts or tool.ends,
            open_world_hint=False,
        ),
    )


def _result(
    tool: Tool, words: Sequence[str], printed: CommandOutput, structured: dict[str, Any]
) -> CallToolResult:
    failed = printed.code != 0 if tool.acts else printed.failed
    content = TextContent(text=as_text(words, printed, tool.raw))
    return CallToolResult(content=[content], structured_content=structured, is_error=failed)


def _refused(error: AndonError) -> CallToolResult:
    hint = f"\nhint: {error.hint}" if error.hint else ""
    return CallToolResult(content=[TextContent(text=f"{error.reason}{hint}")], is_error=True)


def serve(tools: Sequence[Tool], more: Sequence[str], calls: Calls, far: FarActs | None) -> None:
    """Answers until standard input ends."""
    assistant = Assistant(tools, more, calls, far)
    server = Server(
        "andon",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=assistant.listed,
        on_call_tool=assistant.called,
    )

    async def answer() -> None:
        async with stdio_server() as (received, sent):
            with calls.capturing():
                await server.run(received, sent, server.create_initialization_options())

    anyio.run(answer)
