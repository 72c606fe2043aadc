/** Active alerts, acknowledging and silencing them, resolved alerts, and the rules behind them. */
import { useState } from "react";
import { useAlerts, useFeatures, useRules } from "../api/queries";
import type { Alert, Rule } from "../api/types";
import { count, dateOf, duration, withUnit } from "../lib/format";
import { isLit } from "../lib/lamps";
import { alertLink } from "../lib/router";
import { useLive } from "../live/store";
import { AlertRow, MinorRow, SilenceRow } from "../parts/AlertRow";
import { Command } from "../parts/Command";
import { Notice, Trouble } from "../parts/Notice";
import { type Column, Table } from "../parts/Table";

export function AlertsPage({ name, search }: { name: string | null; search: string }) {
  const there = useFeatures()["alerts"];
  const found = useAlerts();
  const old = useLive((now) => now.staleSeconds !== null);
  if (there === false) {
    return <Notice title="Alerts are not available on this server" whole><p>The board's lamps show each GPU's own state. <Command text="andon why" /> explains what stands out now.</p></Notice>;
  }
  if (found.error && !found.data) return <Trouble problem={found.error} what="Alerts cannot be read" whole />;
  if (!found.data) return <p className="dim">Loading…</p>;
  const term = search.trim().toLowerCase();
  const shown = found.data.alerts.filter((one) =>
    !term || [one.message, one.rule, one.where, ...one.affected.map((w) => w.user ?? "")].some((t) => t.toLowerCase().includes(term)));
  const open = shown.filter((one) => one.state !== "resolved");
  const past = shown.filter((one) => one.state === "resolved");
  const lit = open.filter(isLit);
  const rest = open.filter((one) => !lit.includes(one));
  const chosen = rest.find((one) => one.id === name);
  return (
    <section className={old ? "old" : undefined}>
      <div className="page-head">
        <h1>Alerts</h1>
        <p className="dim">{count(lit.length, "active alert")}, {rest.length} informational or pending</p>
        <Command text="andon alerts" />
      </div>
      {lit.length === 0 && (
        <Notice title={term ? "No alert matches" : "No active alerts"}>
          <p>An alert appears here when a rule below holds for long enough: a GPU is too hot, lost, not responding, throttled or running out of memory. Being busy is not an alert.</p>
        </Notice>
      )}
      <ul className="alerts">
        {[...lit, ...(chosen ? [chosen] : [])].map((one) => <AlertRow key={one.id} alert={one} at={found.data.at} open={name === one.id || open.length === 1} />)}
      </ul>
      {rest.length > 0 && <h2>Informational or pending</h2>}
      <ul className="plain">{rest.map((one) => <MinorRow key={one.id} alert={one} at={found.data.at} />)}</ul>
      {found.data.silences.length > 0 && (
        <>
          <h2>Active silences</h2>
          <ul className="plain">{found.data.silences.map((one) => <SilenceRow key={one.id} silence={one} />)}</ul>
        </>
      )}
      <h2>Resolved</h2>
      {past.length === 0 ? <p className="dim">No resolved alerts yet.</p> : <Past alerts={past} />}
      <Rules />
    </section>
  );
}

const PAST: Column<Alert>[] = [
  { name: "began", by: (a) => a.since, cell: (a) => dateOf(a.since) },
  { name: "lasted", by: (a) => (a.resolved ?? a.since) - a.since, cell: (a) => duration((a.resolved ?? a.since) - a.since), number: true },
  { name: "level", by: (a) => a.severity, cell: (a) => a.level },
  { name: "message", by: (a) => a.message, cell: (a) => <a href={alertLink(a.id)}>{a.message}</a> },
  { name: "where", by: (a) => a.where, cell: (a) => a.where, wide: true },
  { name: "acknowledged by", by: (a) => a.acknowledged?.by ?? null, cell: (a) => a.acknowledged?.by || "–", wide: true },
];

function Past({ alerts }: { alerts: Alert[] }) {
  return <Table caption="resolved alerts" columns={PAST} rows={alerts} rowKey={(a) => a.id} sort="began" />;
}

const RULES: Column<Rule>[] = [
  { name: "rule", by: (r) => r.name, cell: (r) => <><b>{r.title}</b><br /><span className="dim">{r.name}</span></> },
  { name: "max level", by: (r) => r.level, cell: (r) => r.level },
  { name: "threshold", by: (r) => r.threshold, cell: (r) => (r.threshold === null ? "–" : withUnit(r.threshold, UNITS[r.unit] ?? r.unit)), number: true },
  { name: "after", by: (r) => r.for_seconds, cell: (r) => duration(r.for_seconds), number: true },
  { name: "description", cell: (r) => <>{r.why} <span className="dim">{r.advice}</span>{!r.active && <em> inactive: {r.inactive_reason}</em>}</> },
];
const UNITS: Record<string, string> = { celsius: "°C", percent: "%", seconds: "s", watts: "W" };

function Rules() {
  const [open, setOpen] = useState(false);
  return (
    <details className="rules" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Alert rules and what to do about each</summary>
      {open && <RuleTable />}
    </details>
  );
}

function RuleTable() {
  const rules = useRules();
  if (rules.error) return <Trouble problem={rules.error} what="Alert rules cannot be read" />;
  if (!rules.data) return <p className="dim">Loading…</p>;
  return (
    <>
      <p className="dim">{count(rules.data.rules.length, "rule")} <Command text="andon alerts rules" /></p>
      <Table caption="rules" columns={RULES} rows={rules.data.rules} rowKey={(r) => r.name} />
    </>
  );
}
