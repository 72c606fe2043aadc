/** Active alerts, acknowledging and silencing them, resolved alerts, and the rules behind them. */
import { type ReactNode, useState, useSyncExternalStore } from "react";
import { useFeatures } from "../api/asking";
import { useAlerts } from "../api/ports";
import { useHealth, useHub } from "../api/server";
import type { Rule } from "../api/types";
import { alone, gathered, type Listed, listed, matching, type Parts, parts, summary } from "../lib/alerting";
import { count, duration, unbroken, withUnit } from "../lib/format";
import { notifiersOf } from "../lib/health";
import { useLive, useSilence } from "../live/store";
import { AlertRow, Silences } from "../parts/AlertRow";
import { Command } from "../parts/Command";
import { Loading } from "../parts/Loading";
import { Notice, Trouble } from "../parts/Notice";
import { NotifyMe } from "../parts/NotifyMe";
import { OnNodes } from "../parts/OnNodes";
import { type Column, Table } from "../parts/Table";

const OPEN = 4; // so many are shown in full at once

export function AlertsPage({ name, search }: { name: string | null; search: string }) {
  const there = useFeatures()["alerts"];
  const found = useAlerts((alerts) => alerts.latest());
  const old = useLive((now) => now.staleSeconds !== null);
  const silence = useSilence();
  const hub = useHub();
  if (there === false) {
    return <Notice title="Alerts are not available on this server" whole><p>The board's lamps show each GPU's own state. <Command text="andon why" /> explains what stands out now.</p></Notice>;
  }
  if (found.error && !found.data) return <Trouble problem={found.error} what="Alerts cannot be read" whole />;
  if (!found.data) return <Loading what="alerts" />;
  const { at, silences, counts, note } = found.data;
  const all = listed(found.data);
  const shown = parts(matching(all, search));
  const few = shown.active.length + shown.handled.length <= OPEN;
  const row = (one: Listed, open = false) => <AlertRow key={one.alert.id} entry={one} at={at} open={open} named={name === one.alert.id} />;
  return (
    <section className={old ? "old" : undefined}>
      <div className="page-head">
        <h1>Alerts</h1>
        {silence === null && !hub && <p className="dim">{summary(counts)}</p>}
        <Command text="andon alerts" />
      </div>
      <OnNodes page="alerts" />
      {name !== null && !all.some((one) => covers(one, name)) && <Elsewhere name={name} at={at} />}
      {shown.active.length === 0 && (hub ? <p className="dim">No active alerts on this machine.</p> : silence !== null ? <Notice title={silence}><p>Its alerts are not known.</p></Notice> : (
        <Notice title={search.trim() ? "No active alert matches" : "No active alerts"}>
          <p>An alert appears here when a rule below holds for long enough: a GPU is too hot, lost, not responding, throttled or running out of memory. Being busy is not an alert. Alerts are shown to everyone: none is hidden here.</p>
        </Notice>
      ))}
      <ul className="alerts">{shown.active.map((one) => row(one, few))}</ul>
      {shown.handled.length > 0 && <><h2>Handled</h2><ul className="alerts">{shown.handled.map((one) => row(one, few))}</ul></>}
      <Minor shown={shown} name={name} row={row} />
      {silences.length > 0 && <><h2>Active silences</h2><Silences silences={silences} /></>}
      <h2>Resolved</h2>
      {shown.past.length === 0 ? <p className="dim">No resolved alerts yet.</p> : <ul className="alerts lines">{shown.past.map((one) => row(one))}</ul>}
      {note && silence === null && <p className="dim">{note}</p>}
      <Notified />
      <Rules />
    </section>
  );
}

const covers = (one: Listed, name: string): boolean => one.alert.id === name || one.related.some((other) => other.id === name);

/** Informational ones, those of a kind in a fold; and what may become an alert. */
function Minor({ shown, name, row }: { shown: Parts; name: string | null; row: (one: Listed) => React.ReactNode }) {
  const has = (group: Listed[]) => name !== null && group.some((one) => covers(one, name));
  return (
    <>
      {shown.info.length > 0 && <h2>Informational</h2>}
      <ul className="alerts lines">
        {gathered(shown.info).map((group) => (group.length === 1 ? row(group[0] as Listed) : (
          <li key={group[0]?.alert.rule} className="gathered">
            <details open={has(group)}>
              <summary>{group.length} GPUs: {unbroken(group[0]?.alert.message.replace(/^GPU [\d:]+ /, "") ?? "")}</summary>
              <ul className="alerts lines">{group.map((one) => row(one))}</ul>
            </details>
          </li>
        )))}
      </ul>
      {shown.pending.length > 0 && (
        <details className="fold" open={has(shown.pending)}>
          <summary>{shown.pending.length} pending: may become an alert if it lasts</summary>
          <ul className="alerts lines">{shown.pending.map((one) => row(one))}</ul>
        </details>
      )}
    </>
  );
}

/** The alert that the address names and the list does not have: an older one. */
function Elsewhere({ name, at }: { name: string; at: number }) {
  const found = useAlerts((alerts) => alerts.one(name));
  if (found.data) {
    return <ul className="alerts linked"><AlertRow entry={alone(found.data)} at={at} open named={false} /></ul>;
  }
  return <p className="dim" role="status">{found.error ? "This alert is no longer stored here." : "Loading…"}</p>;
}

/** Who hears of an alert that is not looked at. */
function Notified() {
  const notifiers = notifiersOf(useHealth(60_000).data?.alerts);
  return (
    <>
      <h2>Notifications</h2>
      <NotifyMe />
      {notifiers && (notifiers.length > 0 ? <p className="dim">Sent through {notifiers.join(", ")}.</p> : (
        <p className="dim">Nobody is notified: no notifier is configured. To add a Slack channel: <Command text="andon alerts notify add slack URL" /></p>
      ))}
    </>
  );
}

const RULES: Column<Rule>[] = [
  { name: "rule", by: (r) => r.name, cell: (r) => <span><b>{r.title}</b> <span className="dim">{r.name}</span></span> },
  { name: "max level", by: (r) => r.level, cell: (r) => r.level },
  { name: "threshold", by: (r) => r.threshold, cell: threshold, number: true },
  { name: "after", by: (r) => r.for_seconds, cell: (r) => duration(r.for_seconds), number: true },
  { name: "description", cell: described },
];

function threshold(rule: Rule): string {
  return rule.threshold === null ? "–" : withUnit(rule.threshold, UNITS[rule.unit] ?? rule.unit);
}

function described(rule: Rule): ReactNode {
  return <span>{rule.why} <span className="dim">{rule.advice}</span>{!rule.active && <em> inactive: {rule.inactive_reason}</em>}</span>;
}

/** On a phone: a line each, which opens. */
function FoldedRule({ rule }: { rule: Rule }) {
  return (
    <details className="fold rule">
      <summary>{rule.title} <span className="dim">{rule.level}</span></summary>
      <p className="dim">{rule.name} · threshold {threshold(rule)} · after {duration(rule.for_seconds)}</p>
      <p>{described(rule)}</p>
    </details>
  );
}

const UNITS: Record<string, string> = { celsius: "°C", percent: "%", seconds: "s", watts: "W" };

function onWidth(changed: () => void): () => void {
  const watched = matchMedia(PHONE);
  watched.addEventListener("change", changed);
  return () => watched.removeEventListener("change", changed);
}

function Rules() {
  const [open, setOpen] = useState(false);
  return (
    <details className="rules" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Alert rules and what to do about each</summary>
      {open && <RuleTable />}
    </details>
  );
}

const PHONE = "(max-width: 760px)";

function RuleTable() {
  const rules = useAlerts((alerts) => alerts.rules());
  const narrow = useSyncExternalStore(onWidth, () => matchMedia(PHONE).matches);
  if (rules.error) return <Trouble problem={rules.error} what="Alert rules cannot be read" />;
  if (!rules.data) return <p className="dim">Loading…</p>;
  return (
    <>
      <p className="dim">{count(rules.data.rules.length, "rule")} <Command text="andon alerts rules" /></p>
      {narrow
        ? <div role="region" aria-label="rules">{rules.data.rules.map((one) => <FoldedRule key={one.name} rule={one} />)}</div>
        : <Table caption="rules" columns={RULES} rows={rules.data.rules} rowKey={(r) => r.name} />}
    </>
  );
}
