/** A hub's nodes for a wall: what is wrong in large letters, then every node on one screen, the worst first. */
import { type CSSProperties, memo, useLayoutEffect, useRef, useState } from "react";
import { useHub, useNodes } from "../api/server";
import type { NodeRow } from "../api/types";
import { cellsOf, colourOf, gpusOf, headline, needy, stripesOf, totals } from "../lib/fleet";
import { count, percent } from "../lib/format";
import { nodeLink } from "../lib/node";
import { Lamp } from "../parts/Lamp";
import "../styles/fleet.css";

const MOST_NAMED = 4;

export function useFleetWall(): ReturnType<typeof headline> & { rows: NodeRow[] } | null {
  const hub = useHub();
  const rows = useNodes(hub).data?.nodes;
  return hub && rows && rows.length > 0 ? { ...headline(rows, totals(rows), 1), rows } : null;
}

export function FleetWall({ rows }: { rows: NodeRow[] }) {
  const sum = totals(rows);
  const worst = [...rows].sort((a, b) => Number(colourOf(b) === "red") - Number(colourOf(a) === "red") || needy(a, b));
  const troubled = worst.filter((row) => row.state === "sick" || row.state === "silent");
  const { sick, silent, free, idle } = sum.shows;
  return (
    <>
      <p className="wall-sums">
        <span><b>{sick.number}</b> sick</span> <span><b>{silent.number}</b> silent</span> <span><b>{free.number}</b> GPUs free</span> <span><b>{idle.number}</b> held but idle</span>
        {sum.utilization !== null && <span><b>{percent(sum.utilization)}</b> busy</span>} <span className="dim">{count(sum.nodes, "node")} · {count(sum.gpus, "GPU")}</span>
      </p>
      {troubled.length > 0 && (
        <ul className="wall-troubled">
          {troubled.slice(0, MOST_NAMED).map((row) => <li key={row.name} className={colourOf(row)}><Lamp colour={colourOf(row)} /> <b>{row.name}</b> <span>{row.reason}</span></li>)}
          {troubled.length > MOST_NAMED && <li className="dim">and {count(troubled.length - MOST_NAMED, "other")}</li>}
        </ul>
      )}
      <Cells rows={worst} />
    </>
  );
}

/** As many columns as let every node be as large as it can be. */
function Cells({ rows }: { rows: NodeRow[] }) {
  const list = useRef<HTMLUListElement>(null);
  const [size, setSize] = useState({ width: 1600, height: 700 });
  useLayoutEffect(() => {
    const seen = new ResizeObserver(([one]) => one && setSize({ width: one.contentRect.width, height: one.contentRect.height }));
    if (list.current) seen.observe(list.current);
    return () => seen.disconnect();
  }, []);
  const { columns, lines } = cellsOf(rows.length, size.width, size.height);
  return (
    <ul ref={list} className="wall-cells" style={{ "--columns": columns, "--lines": lines, "--cell": `${Math.min(size.width / columns / 7, size.height / lines / 2.4)}px` } as CSSProperties}>
      {rows.map((row) => <Cell key={row.name} row={row} />)}
    </ul>
  );
}

const Cell = memo(function Cell({ row }: { row: NodeRow }) {
  const says = [row.name, row.state, row.drained && "drained", row.reason].filter(Boolean).join(", ");
  return (
    <li className={`${colourOf(row)}${row.drained ? " drained" : ""}`}>
      <a href={nodeLink(row.name)} title={says} aria-label={says}>{row.name}</a>
      <i className={gpusOf(row).length ? "stripes" : "stripes unknown"} style={{ background: stripesOf(row) }} />
    </li>
  );
}, (a, b) => a.row.name === b.row.name && colourOf(a.row) === colourOf(b.row) && a.row.reason === b.row.reason && a.row.drained === b.row.drained && String(a.row.gpu_states) === String(b.row.gpu_states));
