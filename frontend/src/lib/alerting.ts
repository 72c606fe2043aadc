/** Alerts as people list them: the server's entries, what is silenced, and how the rest is folded. */
import type { Alert, AlertEntry, Alerts, Rule, Silence } from "../api/types";
import { count, duration, hourOf } from "./format";
import type { Colour } from "./lamps";

/** One line of the list: an alert with those that it explains. */
export interface Listed {
  alert: Alert;
  level: AlertEntry["level"];
  colour: Colour;
  related: Alert[];
}

const LEVELS: Record<string, Colour> = { critical: "red", warning: "amber", info: "info" };
const GATHERED_FROM = 3;

export function listed(found: Alerts): Listed[] {
  const byId = new Map(found.alerts.map((one) => [one.id, one]));
  return found.entries.flatMap(({ id, level, lamp, related }) => {
    const alert = byId.get(id);
    const colour = lamp === "green" ? "info" : (lamp as Colour);
    return alert ? [{ alert, level, colour, related: related.flatMap((one) => byId.get(one) ?? []) }] : [];
  });
}

/** One alert as a line of its own. */
export function alone(alert: Alert): Listed {
  const past = alert.state === "resolved";
  return { alert, level: alert.level, colour: past ? "grey" : alert.state === "pending" ? "ring" : (LEVELS[alert.level] ?? "grey"), related: [] };
}

/** Those of one device that are not over, each with what it explains. */
export function alertsOn(uuid: string, all: Listed[]): Listed[] {
  const open = (one: Alert) => one.subject === uuid && one.state !== "resolved";
  return all.flatMap((one) => {
    const related = one.related.filter(open);
    if (open(one.alert)) return [{ ...one, related }];
    return related.map(alone);
  });
}

export interface Parts {
  active: Listed[];
  /** Acknowledged or silenced: they come last. */
  handled: Listed[];
  info: Listed[];
  pending: Listed[];
  past: Listed[];
}

export function parts(all: Listed[]): Parts {
  const firing = all.filter((one) => one.alert.state === "firing");
  const lit = firing.filter((one) => one.level !== "info");
  return {
    active: lit.filter((one) => marks(one.alert).length === 0),
    handled: lit.filter((one) => marks(one.alert).length > 0),
    info: firing.filter((one) => one.level === "info"),
    pending: all.filter((one) => one.alert.state === "pending" && one.level !== "info"),
    past: all.filter((one) => one.alert.state === "resolved"),
  };
}

interface Badge {
  count: number;
  colour: Colour;
}

/** What needs attention, as the server counts it; null if nothing does. */
export function badge(found: Alerts | undefined, more: Record<string, number> = {}): Badge | null {
  const of = (level: "critical" | "warning") => (found?.counts[level] ?? 0) + (more[level] ?? 0);
  const [critical, warning] = [of("critical"), of("warning")];
  return critical + warning ? { count: critical + warning, colour: critical ? "red" : "amber" } : null;
}

/** "2 critical · 1 warning · 1 pending · 1 handled", as `andon alerts` says it. */
export function summary(counts: Alerts["counts"]): string {
  const { critical, warning, info, pending, clearing, handled } = counts;
  const lit = [critical && `${critical} critical`, warning && count(warning, "warning")].filter(Boolean);
  const rest = [pending && `${pending} pending`, clearing && `${clearing} clearing`, handled && `${handled} handled`, info && `${info} informational`];
  return [...(lit.length ? lit : ["no active alerts"]), ...rest.filter(Boolean)].join(" · ");
}

/** Informational ones of the same rule on several devices are folded into one. */
export function gathered(info: Listed[]): Listed[][] {
  const groups = new Map<string, Listed[]>();
  for (const one of info) {
    const key = one.alert.device === null ? one.alert.id : one.alert.rule;
    groups.set(key, [...(groups.get(key) ?? []), one]);
  }
  return [...groups.values()].flatMap((group) => (group.length < GATHERED_FROM ? group.map((one) => [one]) : [group]));
}

export function matching(all: Listed[], search: string): Listed[] {
  const term = search.trim().toLowerCase();
  if (!term) return all;
  const said = (alert: Alert) => [alert.message, alert.rule, alert.where, alert.level, ...alert.affected.map((one) => one.user ?? "")];
  return all.filter((one) => [one.alert, ...one.related].flatMap(said).some((text) => text.toLowerCase().includes(term)));
}

/** Since when, and what became of it. */
export function stateOf(alert: Alert, at: number): string[] {
  if (alert.state === "resolved") {
    const end = alert.resolved ?? at;
    return [`ended ${duration(at - end)} ago`, `lasted ${duration(end - alert.since)}`];
  }
  return [
    `${alert.state === "pending" ? "pending " : ""}for ${duration(at - alert.since)}`,
    alert.no_data_since !== null ? `no data for ${duration(at - alert.no_data_since)}` : "",
  ].filter(Boolean);
}

/** "acknowledged by ana: on it", "silenced until 12:33". */
export function marks(alert: Alert): string[] {
  const seen = alert.acknowledged;
  return [
    seen ? `acknowledged${seen.by ? ` by ${seen.by}` : ""}${seen.note ? `: ${seen.note}` : ""}` : "",
    alert.silenced_until !== null ? `silenced until ${hourOf(alert.silenced_until)}` : "",
  ].filter(Boolean);
}

export function people(alert: Alert): string {
  return [...new Set(alert.affected.map((one) => one.user).filter(Boolean))].join(", ");
}

/** "Too hot on GPU 2, until 12:33". */
export function silenceText(silence: Silence, rules: Rule[], label: (uuid: string) => string | null): string {
  const what = silence.rule === null ? "Every alert" : (rules.find((one) => one.name === silence.rule)?.title ?? silence.rule);
  const where = silence.subject === null ? "" : ` on ${label(silence.subject) ?? silence.subject}`;
  return `${what}${where}, until ${hourOf(silence.until)}`;
}
