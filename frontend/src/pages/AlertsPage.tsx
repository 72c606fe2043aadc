/** What is lit, since when and for whom; acknowledge, silence, history, and the rules behind it. */
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
    return <Notice title="This server keeps no alerts yet" whole><p>The board's lamps are lit from each device's own state. <Command text="andon why" /> explains what stands out now.</p></Notice>;
  }
  if (found.error && !found.data) return <Trouble problem={found.error} what="Alerts cannot be read" whole />;
  if (!found.data) return <p className="dim">Looking…</p>;
  const wanted = search.trim().toLowerCase();
  const shown = found.data.alerts.filter((one) =>
    !wanted || [one.message, one.rule, one.where, ...one.affected.map((w) => w.user ?? "")].some((t) => t.toLowerCase().includes(wanted)));
  const open = shown.filter((one) => one.state !== "resolved");
  const past = shown.filter((one) => one.state === "resolved");
  const lit = open.filter(isLit);
  const rest = open.filter((one) => !lit.includes(one));
  const chosen = rest.find((one) => one.id === name);
  return (
    <section className={old ? "old" : undefined}>
      <div className="page-head">
        <h1>Alerts</h1>
        <p className="dim">{count(lit.length, "lamp")} lit, {rest.length} for information or pending</p>
        <Command text="andon alerts" />
      </div>
      {lit.length === 0 && (
        <Notice title={wanted ? "No alert matches" : "Nothing is lit"}>
          <p>An alert appears here when a rule below holds for long enough: a GPU too hot, lost, silent, slowed down, its memory filling up. What is merely busy lights nothing.</p>
        </Notice>
      )}
      <ul className="alerts">
        {[...lit, ...(chosen ? [chosen] : [])].map((one) => <AlertRow key={one.id} alert={one} at={found.data.at} open={name === one.id || open.length === 1} />)}
      </ul>
      {rest.length > 0 && <h2>Pending, or for information</h2>}
      <ul className="plain">{rest.map((one) => <MinorRow key={one.id} alert={one} at={found.data.at} />)}</ul>
      {found.data.silences.length > 0 && (
        <>
          <h2>Silences</h2>
          <ul className="plain">{found.data.silences.map((one) => <SilenceRow key={one.id} silence={one} />)}</ul>
        </>
      )}
      <h2>Over</h2>
      {past.length === 0 ? <p className="dim">No alert has come and gone yet.</p> : <Past alerts={past} />}
      <RuleBook />
    </section>
  );
}

const PAST: Column<Alert>[] = [
  { name: "began", by: (a) => a.since, cell: (a) => dateOf(a.since) },
  { name: "lasted", by: (a) => (a.resolved ?? a.since) - a.since, cell: (a) => duration((a.resolved ?? a.since) - a.since), number: true },
  { name: "level", by: (a) => a.severity, cell: (a) => a.level },
  { name: "what", by: (a) => a.message, cell: (a) => <a href={alertLink(a.id)}>{a.message}</a> },
  { name: "where", by: (a) => a.where, cell: (a) => a.where, wide: true },
  { name: "seen by", by: (a) => a.acknowledged?.by ?? null, cell: (a) => a.acknowledged?.by || "–", wide: true },
];

function Past({ alerts }: { alerts: Alert[] }) {
  return <Table caption="alerts that are over" columns={PAST} rows={alerts} rowKey={(a) => a.id} sort="began" />;
}

const RULES: Column<Rule>[] = [
  { name: "rule", by: (r) => r.name, cell: (r) => <><b>{r.title}</b><br /><span className="dim">{r.name}</span></> },
  { name: "level", by: (r) => r.level, cell: (r) => r.level },
  { name: "from", by: (r) => r.threshold, cell: (r) => (r.threshold === null ? "–" : withUnit(r.threshold, UNITS[r.unit] ?? r.unit)), number: true },
  { name: "for", by: (r) => r.for_seconds, cell: (r) => duration(r.for_seconds), number: true },
  { name: "why, and what to do", cell: (r) => <>{r.why} <span className="dim">{r.advice}</span>{!r.active && <em> asleep: {r.inactive_reason}</em>}</> },
];
const UNITS: Record<string, string> = { celsius: "°C", percent: "%", seconds: "s", watts: "W" };

function RuleBook() {
  const [open, setOpen] = useState(false);
  return (
    <details className="rules" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>The rules, and what to do about each</summary>
      {open && <RuleTable />}
    </details>
  );
}

function RuleTable() {
  const rules = useRules();
  if (rules.error) return <Trouble problem={rules.error} what="The rules cannot be read" />;
  if (!rules.data) return <p className="dim">Looking…</p>;
  return (
    <>
      <p className="dim">{count(rules.data.rules.length, "rule")} <Command text="andon alerts rules" /></p>
      <Table caption="rules" columns={RULES} rows={rules.data.rules} rowKey={(r) => r.name} />
    </>
  );
}
