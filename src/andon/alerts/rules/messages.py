"""Messages about alerts: a short title and a few lines that fit on a phone."""

import math
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import zip_longest

from msgspec import Struct
from msgspec.structs import replace

from andon.explain.conditions.catalogue import BY_NAME
from andon.model.alert import Alert, Level, Notice, NoticeKind, Phase
from andon.model.event import Party
from andon.model.redaction import redact
from andon.settings.moments import Offset
from andon.units import and_more, counted, human_seconds, printable

JOB_RULE = "job"  # of a notice about a job, which is no alert
DIGEST_RULE = "digest"  # of a week's digest, whose evidence is its lines
MOST_LISTED = 8
MOST_NAMED = 3
TITLE_CHARACTERS = 70
COMMAND_CHARACTERS = 80
TEXT_CHARACTERS = 500
BODY_CHARACTERS = 1700  # of several alerts, in equal shares: Discord takes 2000 with the rest
LATE_SECONDS = 600.0
LATE = "Delayed: this was held back or could not be sent earlier."
SIMULATED = "SIMULATED: no real device is affected."
NO_NOTIFIER = (
    "no notifier is configured, so nobody is notified; to add a Slack channel: andon alerts notify "
    "add slack URL"
)
_MENTION = re.compile(r"@(?=everyone|here|channel|all\b)|<(?=[@!#&])")
_EPOCH = datetime(1970, 1, 1)
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def trial_notice(at: float, node: str = "", simulated: bool = False) -> Notice:
    """Returns the notice of a test message, which states that nothing is wrong."""
    alert = Alert(
        id=f"test@node#{at:.0f}",
        rule="test",
        subject="node",
        level=Level.INFO,
        state=Phase.FIRING,
        since=at,
        where="this node",
        message="This is a test; nothing is wrong.",
    )
    return Notice(f"{alert.id}:test", NoticeKind.TEST, alert, at, node, simulated)


class Message(Struct, frozen=True):
    """A message; `level` is the worst that is still active, None if all is resolved."""

    title: str
    body: str
    level: Level | None = None


class MessageContext(Struct, frozen=True):
    """The sender of messages: the node, its local time, its board."""

    node: str
    offset: Offset
    board_url: str = ""
    simulated: bool = False

    def message(self, notices: Sequence[Notice], at: float) -> Message:
        return message(notices, at, self.offset, self.board_url)


def message(notices: Sequence[Notice], at: float, offset: Offset, board_url: str = "") -> Message:
    """Returns one message for all notices."""
    latest = [without_secrets(notice) for notice in latest_per_alert(notices)]
    found = _message_of(latest, at, offset)
    lines = [SIMULATED] if any(notice.simulated for notice in latest) else []
    lines += [LATE] if at - min(notice.at for notice in latest) > LATE_SECONDS else []
    lines += [found.body]
    lines += [board_url] if board_url else []
    mark = "SIMULATED " if any(notice.simulated for notice in latest) else ""
    return Message(cut(mark + found.title, TITLE_CHARACTERS), "\n".join(lines), found.level)


def _message_of(notices: Sequence[Notice], at: float, offset: Offset) -> Message:
    """Returns the message about alerts; digests follow whole below."""
    digests = [digest_message(one) for one in notices if one.alert.rule == DIGEST_RULE]
    others = [one for one in notices if one.alert.rule != DIGEST_RULE]
    if len(others) == 1:
        digests.insert(0, single_message(others[0], at, offset))
    elif others:
        digests.insert(0, combined_message(others, at, offset))
    first, *more = digests
    body = "\n\n".join([first.body, *(f"{one.title}\n{one.body}" for one in more)])
    return Message(first.title, body, first.level)


def digest_message(notice: Notice) -> Message:
    """Returns the digest of a week: its alert's evidence are the lines."""
    lines = [_tame(str(line)) for line in notice.alert.evidence.values()]
    return Message(_sentence(notice.alert), cut("\n".join(lines), BODY_CHARACTERS), Level.INFO)


def latest_per_alert(notices: Sequence[Notice]) -> list[Notice]:
    """Returns the latest notice of each alert; earlier ones are out of date."""
    by_alert: dict[str, Notice] = {}
    for notice in notices:
        by_alert.pop(notice.alert.id, None)
        by_alert[notice.alert.id] = notice
    return list(by_alert.values())


def single_message(notice: Notice, at: float, offset: Offset) -> Message:
    """Returns one line each: what, where, since when, who is affected and what to do."""
    alert = notice.alert
    if notice.kind is NoticeKind.TEST:
        return Message(f"TEST {notice.node}: andon can reach you", _sentence(alert), None)
    over = notice.kind is NoticeKind.RESOLVED
    first = f"Resolved: {headline(alert)}" if over else _sentence(alert)
    lines = [first, f"Where: {_place(notice)}", _when(notice, at, offset)]
    if alert.no_data_since is not None and not over:
        since = local_time(alert.no_data_since, at, offset)
        lines.append(f"No data since {since}; this is the last known state.")
    if alert.affected:
        lines.append(
            f"Affected: {'; '.join(_party(p) for p in alert.affected[:MOST_NAMED])}{_more(alert)}"
        )
    if alert.advice and not over:
        lines.append(f"What to do: {alert.advice}")
    title = f"{_label(notice)} {notice.node}: {headline(alert)}"
    return Message(title, "\n".join(lines), _level(notice))


def combined_message(notices: Sequence[Notice], at: float, offset: Offset) -> Message:
    """Returns one message, the worst first; what to do only for alerts that are still active."""
    ordered = sorted(notices, key=_rank, reverse=True)
    lines: list[str] = []
    listed, several = _in_turn(ordered), len({notice.node for notice in notices}) > 1
    share = BODY_CHARACTERS // len(listed)
    for notice, following in zip(listed, [*listed[1:], None], strict=True):
        item = cut(_item(notice, at, offset, f"{notice.node}: " if several else ""), share)
        lines.append(item)
        advice = f"  What to do: {_advice(notice)}"
        if _advice(notice) and _advice(notice) != _advice(following) and len(item + advice) < share:
            lines.append(advice)
    if len(ordered) > MOST_LISTED:
        lines.append(f"and {len(ordered) - MOST_LISTED} more")
    levels = (lv for n in notices if (lv := _level(n)) is not None)
    level = max(levels, key=lambda lv: lv.rank, default=None)
    return Message(_summary(ordered, level), "\n".join(lines), level)


def _in_turn(ordered: Sequence[Notice]) -> list[Notice]:
    """Returns the notices to list: the worst of each node before the second of any node."""
    by_node = dict[str, list[Notice]]()
    for notice in ordered:
        by_node.setdefault(notice.node, []).append(notice)
    first = [one for turn in zip_longest(*by_node.values()) for one in turn if one][:MOST_LISTED]
    return [one for one in ordered if one in first]


def without_secrets(notice: Notice) -> Notice:
    """Returns a notice that may leave this machine: secrets in command lines are redacted again,
    and every text is one line that addresses no chat channel."""
    alert = notice.alert
    who = tuple(
        replace(
            p,
            user=p.user and _tame(p.user),
            name=p.name and _tame(p.name),
            command=p.command and _tame(redacted_command(p.command)),
        )
        for p in alert.affected
    )
    sent = replace(
        alert,
        affected=who,
        message=_tame(alert.message),
        where=_tame(alert.where),
        advice=_tame(alert.advice),
    )
    return replace(notice, node=_tame(notice.node), alert=sent)


def _tame(text: str) -> str:
    """Defuses `@everyone` and `<!channel>`, which would notify a whole channel in a chat."""
    return cut(_MENTION.sub(r"\g<0> ", printable(text)), TEXT_CHARACTERS)


def redacted_command(command: str) -> str:
    """Returns a command line that may leave this machine."""
    return cut(redact(command.split()), COMMAND_CHARACTERS)


def local_time(then: float, now: float, offset: Offset) -> str:
    """`14:02`, with the date if it is not today: `14 Nov 14:02`."""
    local, today = _local(then, offset), _local(now, offset).date()
    time = f"{local:%H:%M}"
    # Not %b: that depends on the locale, and the message is in English.
    return time if local.date() == today else f"{local.day} {_MONTHS[local.month - 1]} {time}"


def _local(at: float, offset: Offset) -> datetime:
    """Returns the local wall-clock time, to the second, without a zone."""
    return _EPOCH + timedelta(seconds=math.floor(at + offset(at)))


def _summary(notices: Sequence[Notice], level: Level | None) -> str:
    nodes = {notice.node for notice in notices}
    where = f"on {nodes.pop()}" if len(nodes) == 1 else f"on {len(nodes)} nodes"
    wrong = sum(notice.kind is not NoticeKind.RESOLVED for notice in notices)
    well = len(notices) - wrong
    if level is None:
        return f"RESOLVED {len(notices)} alerts {where}"
    also = f", {well} resolved" if well else ""
    noun = "job" if all(notice.alert.rule == JOB_RULE for notice in notices) else "alert"
    return f"{level.upper()} {counted(wrong, noun)} {where}{also}"


def _item(notice: Notice, at: float, offset: Offset, node: str) -> str:
    alert = notice.alert
    who = ", ".join(dict.fromkeys(p.user for p in alert.affected if p.user))
    if notice.kind is NoticeKind.RESOLVED:
        affected = f", affected {who}" if who else ""
        lasted = _when(notice, at, offset).lower()
        return f"• RESOLVED {node}{headline(alert)}{affected}, {lasted}"
    affects = f", affects {who}" if who else ""
    since = local_time(alert.since, at, offset)
    return f"• {_label(notice)} {node}{_sentence(alert)}{affects}, since {since}"


def _advice(notice: Notice | None) -> str:
    if notice is None or notice.kind is NoticeKind.RESOLVED:
        return ""
    return notice.alert.advice


def _label(notice: Notice) -> str:
    level = notice.alert.level.upper()
    return {
        NoticeKind.FIRING: level,
        NoticeKind.WORSE: f"NOW {level}",
        NoticeKind.REMINDER: f"STILL {level}",
        NoticeKind.RESOLVED: "RESOLVED",
        NoticeKind.TEST: "TEST",
    }[notice.kind]


def _when(notice: Notice, at: float, offset: Offset) -> str:
    alert, begin = notice.alert, notice.alert.since
    if notice.kind is NoticeKind.RESOLVED:
        end = notice.at if alert.resolved is None else alert.resolved
        return f"Lasted {human_seconds(max(0.0, end - begin))}, until {local_time(end, at, offset)}"
    return f"Since: {local_time(begin, at, offset)} ({human_seconds(max(0.0, at - begin))})"


def _place(notice: Notice) -> str:
    where = notice.alert.where or notice.alert.subject
    return notice.node if where in ("this node", "node") else f"{where} on {notice.node}"


def _party(party: Party) -> str:
    what = redacted_command(party.command) if party.command else party.name or "a process"
    owner = f"{party.user}: " if party.user else ""
    return f"{owner}{what} (pid {party.pid})"


def _more(alert: Alert) -> str:
    more = and_more(len(alert.affected) - MOST_NAMED)
    return f";{more}" if more else ""


def headline(alert: Alert) -> str:
    """Returns the part of the message before the colon; if that is only the device, the rule's
    title follows."""
    first = _sentence(alert).partition(": ")[0]
    rule = BY_NAME.get(alert.rule)
    if rule is not None and alert.where.startswith(f"{first} ("):
        return f"{first}: {rule.title[:1].lower()}{rule.title[1:]}"
    return first


def _sentence(alert: Alert) -> str:
    return alert.message or f"{alert.rule} on {alert.where or alert.subject}"


def _level(notice: Notice) -> Level | None:
    over = notice.kind in (NoticeKind.RESOLVED, NoticeKind.TEST)
    return None if over else notice.alert.level


def _rank(notice: Notice) -> tuple[int, int, float]:
    level = _level(notice)
    return (-1 if level is None else level.rank, notice.alert.severity, -notice.alert.since)


def cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1].rstrip() + "…"
