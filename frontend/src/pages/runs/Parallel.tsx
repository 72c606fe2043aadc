/** A group of runs: an axis for each parameter and result, a line for each run, which opens it. */
import { useState } from "react";
import type { RunEntry } from "../../api/types";
import { runLink } from "../../lib/router";
import { axesOf, axisOf, type RunField, textOf } from "./fields";

const [HIGH, TOP, BOTTOM, SIZE] = [210, 34, 186, 13]; // of the drawing: the letters grow with it

export function Parallel({ runs, fields }: { runs: RunEntry[]; fields: RunField[] }) {
  const [seen, setSeen] = useState<RunEntry | null>(null);
  const axes = axesOf(runs, fields).map((field) => axisOf(runs, field));
  if (axes.length < 2) return null;
  const wide = 150 * (axes.length - 1);
  const x = (place: number) => (wide * place) / (axes.length - 1);
  const y = (at: number) => BOTTOM - at * (BOTTOM - TOP);
  const line = (run: RunEntry) => axes.flatMap((axis, place) => (axis.at(run) === null ? [] : [`${x(place).toFixed(1)},${y(axis.at(run) as number).toFixed(1)}`])).join(" ");
  const says = (run: RunEntry) => axes.map((axis) => `${axis.field.title} ${textOf(axis.field, run)}`).join(" · ");
  return (
    <figure className="parallel" aria-label="parameters and results">
      <svg viewBox={`-70 0 ${wide + 140} ${HIGH}`} fontSize={SIZE} style={{ minWidth: `${(wide + 140) / 16}rem` }} role="group" aria-label={`${runs.length} runs, a line each`}>
        {axes.map((axis, place) => (
          <g key={axis.field.id}>
            <line className="axis" x1={x(place)} x2={x(place)} y1={TOP} y2={BOTTOM} />
            <text x={x(place)} y={12} textAnchor="middle">{axis.field.title}</text>
            <text className="dim" x={x(place)} y={BOTTOM + 16} textAnchor="middle">{axis.low}</text>
            <text className="dim" x={x(place)} y={TOP - 6} textAnchor="middle">{axis.high}</text>
          </g>
        ))}
        {runs.map((run) => (
          <a key={run.id} href={runLink(run.id)} aria-label={`${run.name}: ${says(run)}`} onMouseEnter={() => setSeen(run)} onFocus={() => setSeen(run)} onMouseLeave={() => setSeen(null)} onBlur={() => setSeen(null)}>
            <polyline className={`${run.state === "succeeded" || run.state === "running" ? "" : "wrong"}${seen?.id === run.id ? " seen" : ""}`} points={line(run)} />
          </a>
        ))}
      </svg>
      <figcaption className="dim" aria-hidden="true">{seen ? <><b>{seen.name}</b> {says(seen)}</> : "a line is a run; a dashed one did not succeed"}</figcaption>
    </figure>
  );
}
