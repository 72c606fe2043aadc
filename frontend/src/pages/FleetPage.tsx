/** The nodes of a hub: what needs someone, what is free, then every node, of which those in sight are drawn. */
import { createContext, type CSSProperties, type KeyboardEvent, memo, type ReactNode, useContext, useLayoutEffect, useMemo, useRef, useState } from "react";
import { useFeatures } from "../api/asking";
import { useDays, useNodes } from "../api/server";
import type { NodeRow } from "../api/types";
import { byName, choices, chosen, colourOf, type Field, FIELDS, freeOf, gpusOf, gpuWords, type GroupBy, grouped, GROUPS, headline, inSight, isHeard, modelsOf, ordered, type Show, SHOWS, taskWords, totals, type Totals } from "../lib/fleet";
import { count, DASH, duration, hourOf, percent } from "../lib/format";
import { deviceLink } from "../lib/links";
import { nodeLink } from "../lib/node";
import { keep, orderIn, withQuery } from "../lib/router";
import { useLive } from "../live/store";
import { Command } from "../parts/Command";
import { Lamp } from "../parts/Lamp";
import { Loading } from "../parts/Loading";
import { Notice, Trouble } from "../parts/Notice";
import { paths, Sparkline } from "../parts/Sparkline";
import { type Column, nextOrder, type Order } from "../parts/Table";
import "../styles/fleet.css";

export function FleetPage({ query }: { query: URLSearchParams }) {
  const found = useNodes(true);
  const old = useLive((now) => now.link.state === "away" || now.staleSeconds !== null);
  const rows = found.data?.nodes;
  const sum = useMemo(() => totals(rows ?? []), [rows]);
  const { order, onOrder } = orderIn(query);
  const text = query.toString();
  const all = (rows ?? []).map((row) => row.name).sort(byName).join();
  const names = useMemo(() => all.split(","), [all]);
  const shown = useMemo(() => ordered(chosen(rows ?? [], query), order), [rows, text]);
  if (useFeatures()["nodes"] === false) {
    return <Notice title="This server is not a hub" whole><p>It watches its own machine: <a href="#/">its board</a>. One that others report to: <Command text="andon hub --store URL" /></p></Notice>;
  }
  if (!rows) return found.error ? <Trouble problem={found.error} what="The nodes cannot be read" whole /> : <Loading what="the nodes" />;
  const map = query.get("view") === "map";
  const by = GROUPS.find((one) => one === query.get("group")) ?? null;
  const said = headline(rows, sum);
  return (
    <section className={old ? "fleet old" : "fleet"}>
      <header className={`headline ${rows.length ? said.colour : "grey"}`}>
        <Lamp colour={rows.length ? said.colour : "grey"} />
        <h1>{rows.length ? said.text : "No node reports yet"}</h1>
      </header>
      <p className="page-head sum dim"><span>{sumText(sum)}</span> <Command text="andon nodes" /></p>
      <Sums sum={sum} query={query} />
      <Narrow rows={rows} query={query} found={shown.length} map={map} />
      {shown.length > 0 && (map ? <NodeMap rows={shown} by={by} /> : <Nodes rows={shown} names={names} by={by} order={order} onOrder={onOrder} />)}
      {shown.length === 0 && rows.length > 0 && <Notice title="No node matches"><p><a href="#/fleet">Show all {rows.length}</a></p></Notice>}
      {rows.length === 0 && (
        <Notice title="No node reports to this hub yet">
          <p>Add one; the answer is the line to paste there: <Command text="andon nodes add NAME" /></p>
        </Notice>
      )}
    </section>
  );
}

function sumText({ nodes, gpus, utilization }: Totals): string {
  return [count(nodes, "node"), count(gpus, "GPU"), utilization !== null && `${percent(utilization)} busy`].filter(Boolean).join(" · ");
}

const MOST_ACROSS = 16;

/** A square for each GPU: what it is by its colour, how busy by how far it is filled. */
const Squares = memo(function Squares({ row, links = false }: { row: NodeRow; links?: boolean }) {
  const gpus = gpusOf(row);
  if (!gpus.length) return row.gpus && isHeard(row) ? <span className="dim">{row.gpus}</span> : <>{DASH}</>;
  return (
    <span className="squares" style={{ "--across": Math.min(gpus.length, MOST_ACROSS) } as CSSProperties}>
      {gpus.map((one) => {
        const look = { className: `square ${one.state}${one.slow ? " slow" : ""}`, title: gpuWords(one), style: { "--load": `${one.load ?? 0}%` } as CSSProperties };
        return links ? <a key={one.label} {...look} href={nodeLink(row.name, deviceLink(one.label))} aria-label={gpuWords(one)} tabIndex={-1} /> : <i key={one.label} {...look} />;
      })}
    </span>
  );
}, (a, b) => a.row.name === b.row.name && a.row.state === b.row.state && String([a.row.gpu_states, a.row.slow]) === String([b.row.gpu_states, b.row.slow]));

/** Every node of the fleet on one screen: its name and a square for each GPU. */
function NodeMap({ rows, by }: { rows: NodeRow[]; by: GroupBy | null }) {
  return (
    <>
      {grouped(rows, by).map(([title, some]) => (
        <section key={title} className="node-group">
          {title && <h2>{title} <span className="dim">{count(some.length, "node")}</span></h2>}
          <ul className="node-map">
            {some.map((row) => (
              <li key={row.name} className={`${colourOf(row)}${row.drained ? " drained" : ""}`}>
                <a href={nodeLink(row.name)} title={[row.state, row.drained && "drained", row.reason].filter(Boolean).join(": ")}><Lamp colour={colourOf(row)} /> <span>{row.name}</span></a>
                <Squares row={row} />
              </li>
            ))}
          </ul>
        </section>
      ))}
    </>
  );
}

const TITLES: Record<Show, [title: string, of: (nodes: number) => string]> = {
  sick: ["sick", (nodes) => (nodes === 1 ? "needs someone" : "need someone")],
  free: ["free", (nodes) => `GPUs on ${count(nodes, "node")}`],
  idle: ["idle but held", (nodes) => `GPUs on ${count(nodes, "node")}`],
  silent: ["silent", (nodes) => (nodes === 1 ? "does not report" : "do not report")],
};
const TONES: Partial<Record<Show, string>> = { sick: "amber", idle: "ring", silent: "grey", free: "green" };

/** Each number is a button that shows the nodes behind it. */
function Sums({ sum, query }: { sum: Totals; query: URLSearchParams }) {
  const now = query.get("show");
  return (
    <div className="sums" role="group" aria-label="show only">
      {SHOWS.map((one) => {
        const [title, of] = TITLES[one];
        const { nodes, number } = sum.shows[one];
        return (
          <button key={one} type="button" className={number ? TONES[one] : "none"} aria-pressed={now === one} onClick={() => keep(withQuery(query, { show: now === one ? "" : one }))}>
            <b>{number}</b> <span>{title}</span> <small>{of(nodes)}</small>
          </button>
        );
      })}
    </div>
  );
}

function Narrow({ rows, query, found, map }: { rows: NodeRow[]; query: URLSearchParams; found: number; map: boolean }) {
  const narrowed = ["q", "show", ...FIELDS].some((name) => query.get(name));
  return (
    <div className="narrow">
      <label>name <input type="search" value={query.get("q") ?? ""} placeholder="or any word" onChange={(event) => keep(withQuery(query, { q: event.target.value }))} /></label>
      {FIELDS.map((field) => <Choice key={field} field={field} rows={rows} query={query} />)}
      {narrowed && <button type="button" className="quiet" onClick={() => keep(withQuery(new URLSearchParams(), { sort: query.get("sort") ?? "" }))}>show all</button>}
      <span role="status" className="dim">{narrowed && `${found} of ${rows.length}`}</span>
      <span className="view" role="group" aria-label="shown as">
        <span aria-hidden="true">group</span>
        <select aria-label="group" value={query.get("group") ?? ""} onChange={(event) => keep(withQuery(query, { group: event.target.value }))}>
          <option value="">none</option>
          {GROUPS.map((one) => <option key={one}>{one}</option>)}
        </select>
        <button type="button" aria-pressed={!map} onClick={() => keep(withQuery(query, { view: "" }))}>list</button>
        <button type="button" aria-pressed={map} onClick={() => keep(withQuery(query, { view: "map" }))}>map</button>
      </span>
    </div>
  );
}

function Choice({ field, rows, query }: { field: Field; rows: NodeRow[]; query: URLSearchParams }) {
  const now = query.get(field) ?? "";
  const all = useMemo(() => [...new Set([...choices(rows, field), now].filter(Boolean))], [rows, field, now]);
  if (!all.length) return null;
  return (
    <label>
      {field}{" "}
      <select value={now} onChange={(event) => keep(withQuery(query, { [field]: event.target.value }))}>
        <option value="">any</option>
        {all.map((one) => <option key={one}>{one}</option>)}
      </select>
    </label>
  );
}

/** The day of each node in sight, by name. */
const Days = createContext<ReadonlyMap<string, (number | null)[]>>(new Map());

/** The last day in half hours, and what it does now; a gap is a gap. */
const Day = memo(function Day({ line, now }: { line: (number | null)[] | undefined; now: number | null }) {
  const values = useMemo(() => paths([...(line ?? []), now]), [line, now]);
  const known = line?.flatMap((one) => one ?? []) ?? [];
  if (!known.length) return <span className="dim" title="Nothing of the last day is recorded here.">{line ? DASH : ""}</span>;
  const says = `the last day: mean ${percent(known.reduce((a, b) => a + b, 0) / known.length)}, from ${percent(Math.min(...known))} to ${percent(Math.max(...known))}`;
  return <span className="day-line" title={says} role="img" aria-label={says}><Sparkline {...values} /></span>;
});

function DayOf({ row }: { row: NodeRow }) {
  return <Day line={useContext(Days).get(row.name)} now={row.utilization_percent === null ? null : Math.round(row.utilization_percent)} />;
}

const COLUMNS: Column<NodeRow>[] = [
  { name: "node", cell: (row) => <a href={nodeLink(row.name)}>{row.name}</a> },
  { name: "GPUs", cell: (row) => <Squares row={row} links /> },
  { name: "model", cell: (row) => <span title={Object.keys(row.models).join(", ")}>{modelsOf(row)}</span>, wide: true },
  { name: "state", cell: (row) => <State row={row} />, rest: true },
  { name: "free", cell: (row) => (isHeard(row) ? freeOf(row) || DASH : DASH), number: true },
  { name: "util", cell: (row) => <Share percent={row.utilization_percent} kind="util" />, number: true, wide: true },
  { name: "day", cell: (row) => <DayOf row={row} />, wide: true },
  { name: "memory", cell: (row) => <Share percent={row.memory_percent} kind="memory" />, number: true, wide: true },
  { name: "hottest", cell: (row) => (row.temperature_celsius == null ? DASH : `${Math.round(row.temperature_celsius)} °C`), number: true, wide: true },
  { name: "users", cell: (row) => <span className="users" title={row.holders.map(taskWords).join(", ") || row.users.join(", ")}>{row.users.join(", ") || DASH}</span>, wide: true },
  { name: "age", cell: (row) => (row.age_seconds === null ? DASH : isHeard(row) ? "now" : <span title={`since ${hourOf(Date.now() / 1000 - row.age_seconds)}`}>{duration(Math.round(row.age_seconds))}</span>), number: true, wide: true },
];

/** A bar and its number. */
function Share({ percent: share, kind }: { percent: number | null | undefined; kind: string }) {
  if (share == null) return <>{DASH}</>;
  return <span className={`share ${kind}`}><span className="share-track" aria-hidden="true"><i style={{ width: `${Math.min(100, share)}%` }} /></span> {percent(share)}</span>;
}

function State({ row }: { row: NodeRow }): ReactNode {
  const said = [row.state === "silent" ? row.reason : row.state, row.drained && "drained", row.simulated && "simulated", row.slow?.length && `slow: GPU ${row.slow.join(", ")}`].filter(Boolean).join(", ");
  return <span title={row.reason ?? undefined}><Lamp colour={colourOf(row)} /> {said}{row.reason && row.state !== "silent" && <span className="dim">: {row.reason}</span>}</span>;
}

/** A table as long as the list, of which only what is in sight is in the page. */
function Nodes({ rows: all, names, by, order, onOrder }: { rows: NodeRow[]; names: string[]; by: GroupBy | null; order: Order; onOrder: (order: Order) => void }) {
  const rows = useMemo(() => grouped(all, by).flatMap(([title, some]): (NodeRow | string)[] => (title ? [`${title}: ${count(some.length, "node")}`, ...some] : some)), [all, by]);
  const body = useRef<HTMLTableSectionElement>(null);
  const [rowHeight, setRowHeight] = useState(37);
  const [{ first, end }, setRange] = useState(() => inSight(rows.length, rowHeight, 0, window.innerHeight));
  useLayoutEffect(() => {
    const drawn = body.current?.querySelector<HTMLElement>("tr.node")?.getBoundingClientRect().height;
    if (drawn && Math.abs(drawn - rowHeight) > 0.5) setRowHeight(drawn);
  });
  useLayoutEffect(() => {
    const look = () => {
      const top = -(body.current?.getBoundingClientRect().top ?? 0);
      const next = inSight(rows.length, rowHeight, top, window.innerHeight);
      setRange((before) => (before.first === next.first && before.end === next.end ? before : next));
    };
    look();
    window.addEventListener("scroll", look, { passive: true });
    window.addEventListener("resize", look);
    return () => {
      window.removeEventListener("scroll", look);
      window.removeEventListener("resize", look);
    };
  }, [rows.length, rowHeight]);
  const inView = rows.slice(first, end);
  const days = useDays(names, new Set(inView.flatMap((row) => (typeof row === "string" ? [] : row.name)))).of;
  return (
    <Days.Provider value={days}>
    <table className="nodes" aria-rowcount={rows.length + 1}>
      <caption className="hidden">Nodes</caption>
      <thead>
        <tr aria-rowindex={1}>
          {COLUMNS.map((column) => (
            <th key={column.name} scope="col" className={classes(column)} aria-sort={order.name !== column.name ? undefined : order.down ? "descending" : "ascending"}>
              {["users", "day"].includes(column.name) ? column.name : (
                <button type="button" onClick={() => onOrder(nextOrder(order, column))}>
                  {column.name}<span aria-hidden="true">{order.name === column.name ? (order.down ? "\u00a0↓" : "\u00a0↑") : ""}</span>
                </button>
              )}
            </th>
          ))}
        </tr>
      </thead>
      <tbody ref={body}>
        <Room rows={first} height={rowHeight} />
        {inView.map((row, place) => (typeof row === "string" ? <tr key={row} className="group" aria-rowindex={first + place + 2}><th scope="rowgroup" colSpan={COLUMNS.length}>{row}</th></tr> : (
          <tr key={row.name} className={isHeard(row) ? "node" : "node silent"} aria-rowindex={first + place + 2} onKeyDown={walk}>
            {COLUMNS.map((column) => <td key={column.name} className={classes(column)}>{column.cell(row)}</td>)}
          </tr>
        )))}
        <Room rows={rows.length - end} height={rowHeight} />
      </tbody>
    </table>
    </Days.Provider>
  );
}

/** The arrow keys go from a node to its GPUs; Tab goes from node to node. */
function walk(event: KeyboardEvent<HTMLElement>) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const links = [...event.currentTarget.querySelectorAll<HTMLElement>("a")];
  links[links.indexOf(document.activeElement as HTMLElement) + step]?.focus();
  event.preventDefault();
}

/** The place of rows that are not drawn. */
function Room({ rows, height }: { rows: number; height: number }) {
  return rows > 0 ? <tr aria-hidden="true" className="room"><td colSpan={COLUMNS.length} style={{ height: rows * height }} /></tr> : null;
}

const classes = (column: Column<NodeRow>) => [column.name, column.number && "number", column.wide && "wide", column.rest && "rest"].filter(Boolean).join(" ");
