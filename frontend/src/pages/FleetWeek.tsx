/** The week of all nodes of a hub: what is reserved and held on each, as it reports. */
import { useState } from "react";
import { useFeatures } from "../api/asking";
import { useNodes } from "../api/server";
import type { NodeRow } from "../api/types";
import { isHeard } from "../lib/fleet";
import { count, hourOf } from "../lib/format";
import { useMe } from "../lib/me";
import { NODE, nodeLink } from "../lib/node";
import { coloursOf, placed, type Span } from "../lib/timeline";
import { weekOf } from "../lib/week";
import { Command } from "../parts/Command";
import { WeekRows } from "../parts/WeekRows";

const MOST_ROWS = 40;

/** A bar for each lease and reservation of a node. */
export function spansOf(row: NodeRow, at: number): Span[] {
  return row.spans.map((one, nth): Span => {
    const until = one.until === null ? "no end was said" : `until ${hourOf(one.until, at)}`;
    const says = one.reserved ? `reserved from ${hourOf(one.since ?? at, at)} ${until}` : `held, ${until}`;
    return {
      id: `${row.name} ${nth}`, row: row.name, from: one.since ?? at, to: one.until, sure: one.until ?? at, tone: one.reserved ? "reserved" : "held", who: one.user,
      label: `${one.gpus} · ${one.user}`, says: `${one.gpus} · ${one.user} on ${row.name}: ${says}`,
    };
  });
}

/** Nodes whose name, users or models have every word; those with something in their week come first. */
function inWeek(rows: NodeRow[], search: string): NodeRow[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (row: NodeRow) => [row.name, ...Object.keys(row.models), ...row.spans.map(({ user }) => user)].join(" ").toLowerCase();
  return rows.filter((row) => isHeard(row) && row.gpus > 0 && words.every((word) => text(row).includes(word))).sort((a, b) => Number(b.spans.length > 0) - Number(a.spans.length > 0) || a.name.localeCompare(b.name, "en", { numeric: true }));
}

export function FleetWeek() {
  const hub = (useFeatures()["nodes"] ?? false) && NODE === null;
  return hub ? <Weeks /> : null;
}

function Weeks() {
  const list = useNodes(true).data;
  const me = useMe();
  const [search, setSearch] = useState("");
  if (!list?.nodes.length) return null;
  const found = inWeek(list.nodes, search);
  const rows = found.slice(0, MOST_ROWS);
  const spans = rows.flatMap((row) => spansOf(row, list.at));
  const days = weekOf(list.at);
  const silent = list.nodes.filter((row) => row.gpus > 0 && !isHeard(row)).length;
  const reserved = spans.filter(({ tone }) => tone === "reserved").length;
  const left = [found.length > rows.length && `${count(found.length - rows.length, "more node")}: narrow the search.`, silent > 0 && `Of ${count(silent, "node")} without a report nothing is known.`].filter(Boolean);
  return (
    <section className="plan week" aria-label="the week of all nodes">
      <div className="ranges">
        <h2>The week of all nodes</h2>
        <span className="dim">{reserved ? count(reserved, "reservation") : "nothing is reserved"}</span>
        <input type="search" value={search} onChange={({ target }) => setSearch(target.value)} placeholder="node, user or model" aria-label="nodes, users and models in the week" />
        <Command text="andon reservations" />
      </div>
      <div className="timeline week-grid fleet-week">
        {rows.length > 0 ? (
          <WeekRows
            days={days} now={list.at} rows={placed(rows.map(({ name }) => ({ id: name, title: name })), spans, days[0] as number, days[days.length - 1] as number)} colours={coloursOf(spans.map(({ who }) => who))} me={me}
            title={({ id }) => <a href={nodeLink(id, "#/leases")}>{id}</a>} onBar={({ row }) => location.assign(nodeLink(row, "#/leases"))}
          />
        ) : <p className="hint dim" role="status">No node matches.</p>}
        <p className="hint dim">{["To reserve, open a node.", ...left].join(" ")}</p>
      </div>
    </section>
  );
}
