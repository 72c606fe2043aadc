/** The last day of a hub's nodes: all of them as one line, then each; a time is chosen on the first. */
import { useMemo, useState } from "react";
import { roundTop, timeTicks } from "../charts/axis";
import { useDays, useNodes } from "../api/server";
import type { NodeRow } from "../api/types";
import { chosen, colourOf, ordered, overAll } from "../lib/fleet";
import { count, DASH, hourOf, withUnit } from "../lib/format";
import { nodeLink } from "../lib/node";
import { keep, withQuery } from "../lib/router";
import { Lamp } from "../parts/Lamp";
import { Loading } from "../parts/Loading";
import { Notice } from "../parts/Notice";
import { paths, Sparkline } from "../parts/Sparkline";
import "../styles/fleet.css";

const GIB = 1024 ** 3;
const METRICS: [metric: string, title: string, unit: string, scale: number][] = [
  ["utilization_percent", "utilisation", "%", 1],
  ["memory_used_bytes", "memory of a GPU", "GiB", GIB],
  ["temperature_celsius", "temperature", "°C", 1],
  ["power_watts", "power of a GPU", "W", 1],
];
const SHOWN = 60;

export function FleetCharts({ query }: { query: URLSearchParams }) {
  const rows = useNodes(false).data?.nodes;
  const [most, setMost] = useState(SHOWN);
  const [place, setPlace] = useState<number | null>(null);
  const [metric, title, unit, scale] = METRICS.find(([name]) => name === query.get("metric")) ?? METRICS[0]!;
  const names = useMemo(() => ordered(rows ?? [], { name: "node", down: false }).map((row) => row.name), [rows]);
  const days = useDays(names, useMemo(() => new Set(names), [names]), metric);
  if (!rows) return <Loading what="the nodes" />;
  const shown = ordered(chosen(rows, query), { name: "node", down: false });
  const lines = new Map([...days.of].map(([name, values]) => [name, values.map((value) => (value === null ? null : value / scale))]));
  const whole = overAll(shown, lines);
  const top = metric === "utilization_percent" ? 100 : roundTop(Math.max(1, ...[...lines.values()].flat().map((value) => value ?? 0)));
  const at = (one: number): number => (days.at ? days.at.since + ((days.at.until - days.at.since) * one) / Math.max(1, whole.length) : 0);
  const value = place === null ? null : whole[place] ?? null;
  const text = (one: number | null): string => withUnit(one, unit);
  const known = whole.flatMap((one) => one ?? []);
  const drawn = (values: (number | null)[]) => paths(values.map((one) => (one === null ? null : (100 * one) / top)));
  return (
    <article className="fleet fleet-charts">
      <div className="page-head">
        <h1>All nodes: {title}</h1>
        <p className="dim">the last day in half hours, the mean of each node's GPUs</p>
        <label className="choice"><span className="dim">reading</span>
          <select value={metric} onChange={(event) => keep(withQuery(query, { metric: event.target.value }))}>{METRICS.map(([name, words]) => <option key={name} value={name}>{words}</option>)}</select>
        </label>
      </div>
      {known.length === 0 ? (days.at ? <Notice title="Nothing is recorded yet"><p>A node sends its past in blocks of ten minutes.</p></Notice> : <Loading what="the last day" />) : (
        <section className="whole-fleet" aria-label="all of them">
          <p role="status">{place === null ? <>mean <b>{text(known.reduce((sum, one) => sum + one, 0) / known.length)}</b>, from {text(Math.min(...known))} to {text(Math.max(...known))}</> : <>{hourOf(at(place))}–{hourOf(at(place + 1)).slice(-5)}: <b>{value === null ? "nothing was recorded" : text(value)}</b></>}<span className="dim"> · {count(shown.filter((row) => lines.get(row.name)?.length).length, "node")} of {rows.length}</span></p>
          <div className="line-of-all">
            <Sparkline {...drawn(whole)} />
            {place !== null && <i style={{ left: `${(100 * (place + 0.5)) / whole.length}%` }} />}
            <input type="range" aria-label="time" aria-valuetext={place === null ? "the whole day" : hourOf(at(place))} min={0} max={whole.length - 1} value={place ?? whole.length - 1} onChange={(event) => setPlace(Number(event.target.value))} onPointerMove={(event) => setPlace(Math.max(0, Math.min(whole.length - 1, Math.floor((whole.length * event.nativeEvent.offsetX) / event.currentTarget.clientWidth))))} onPointerLeave={() => setPlace(null)} onBlur={() => setPlace(null)} />
          </div>
          <p className="dim ticks" aria-hidden="true">{days.at && timeTicks(days.at.since, days.at.until, 8).map((tick) => {
            const left = (100 * (tick.at - (days.at?.since ?? 0))) / 86_400;
            return <span key={tick.at} style={{ left: `${left}%`, ...(left < 4 && { transform: "none" }) }}>{tick.text}</span>;
          })}</p>
        </section>
      )}
      <ul className="node-days">
        {shown.slice(0, most).map((row) => <Day key={row.name} row={row} line={lines.get(row.name) ?? []} place={place} drawn={drawn} text={text} />)}
      </ul>
      {shown.length === 0 && <Notice title="No node matches" />}
      {shown.length > most && <p className="buttons pages"><button type="button" onClick={() => setMost(most + SHOWN)}>{Math.min(SHOWN, shown.length - most)} more of {shown.length}</button></p>}
    </article>
  );
}

function Day({ row, line, place, drawn, text }: { row: NodeRow; line: (number | null)[]; place: number | null; drawn: (values: (number | null)[]) => ReturnType<typeof paths>; text: (one: number | null) => string }) {
  const last = [...line].reverse().find((one) => one !== null) ?? null;
  const value = place === null ? last : line[place] ?? null;
  return (
    <li>
      <a href={nodeLink(row.name, "#/charts")}><Lamp colour={colourOf(row)} /> {row.name}</a>
      <span className={value === null ? "dim" : undefined}>{line.length ? text(value) : DASH}</span>
      {line.length ? <Sparkline {...drawn(line)} /> : <span className="dim none">nothing recorded</span>}
    </li>
  );
}
