/** Two columns of the runs against each other: a dot per run, which opens it. */
import { useRef, useState } from "react";
import type { RunEntry } from "../../api/types";
import { count } from "../../lib/format";
import { keep, runLink, withQuery } from "../../lib/router";
import { coloursOf } from "../../lib/timeline";
import { type Dot, dotsOf, type RunField, scaleOf, textOf } from "./fields";

const MOST_COLOURS = 8;

export function Scatter({ runs, fields, query }: { runs: RunEntry[]; fields: RunField[]; query: URLSearchParams }) {
  const numbers = fields.filter((field) => field.number);
  const usual = (id: string | null, other: string) => numbers.find((field) => field.id === id) ?? numbers.find((field) => field.id === other) ?? numbers[0];
  const x = usual(query.get("x"), "duration");
  const y = usual(query.get("y"), numbers.find((field) => field.id.startsWith("value:"))?.id ?? "energy");
  if (!x || !y) return <p className="dim">None of these runs has a number to draw.</p>;
  const dots = dotsOf(runs, x, y);
  const kinds = (field: RunField) => new Set(dots.map((dot) => textOf(field, dot.run))).size;
  const groups = fields.filter((field) => kinds(field) > 1 && kinds(field) <= MOST_COLOURS);
  const by = groups.find((field) => field.id === query.get("colour"));
  const choice = (name: string, field: RunField) => (
    <label className="choice">
      <span className="dim">{name === "x" ? "across" : "up"}</span>
      <select value={field.id} aria-label={name === "x" ? "across" : "up"} onChange={(event) => keep(withQuery(query, { [name]: event.target.value }))}>
        {numbers.map((one) => <option key={one.id} value={one.id}>{one.title}</option>)}
      </select>
    </label>
  );
  return (
    <section className="scatter" aria-label="scatter">
      <p className="ranges">
        {choice("y", y)} {choice("x", x)}
        <label className="choice">
          <span className="dim">colour by</span>
          <select value={by?.id ?? ""} aria-label="colour by" onChange={(event) => keep(withQuery(query, { colour: event.target.value }))}>
            <option value="">group or user</option>
            {groups.map((one) => <option key={one.id} value={one.id}>{one.title}</option>)}
          </select>
        </label>
        <span className="dim">{count(dots.length, "run")}{runs.length > dots.length && `; ${runs.length - dots.length} without both values`}</span>
      </p>
      {dots.length > 0 && <Field dots={dots} x={x} y={y} by={by} />}
    </section>
  );
}

function Field({ dots, x, y, by }: { dots: Dot[]; x: RunField; y: RunField; by: RunField | undefined }) {
  const [at, setAt] = useState<number | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const [across, up] = [scaleOf(dots.map((dot) => dot.x), x.bases), scaleOf(dots.map((dot) => dot.y), y.bases)];
  const of = (run: RunEntry) => by ? textOf(by, run) : run.group ?? run.user ?? run.name;
  const colours = coloursOf(dots.map((dot) => of(dot.run)));
  const seen = at === null ? null : dots[at];
  const pressed = (event: React.KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    const next = (at ?? 0) + step;
    if (!step || !dots[next]) return;
    event.preventDefault();
    box.current?.querySelectorAll<HTMLElement>("a.dot")[next]?.focus();
  };
  return (
    <>
      <div className="field-of" ref={box} onKeyDown={pressed} onMouseLeave={() => setAt(null)}>
        {up.ticks.map((tick) => <i key={tick} className="grid-line" style={{ bottom: `${100 * up.at(tick)}%` }} />)}
        {up.ticks.map((tick) => <span key={tick} className="y-tick" style={{ bottom: `${100 * up.at(tick)}%` }}>{y.text(tick)}</span>)}
        {across.ticks.map((tick) => <span key={tick} className="x-tick" style={{ left: `${100 * across.at(tick)}%` }}>{x.text(tick)}</span>)}
        {dots.map((dot, place) => (
          <a
            key={dot.run.id} href={runLink(dot.run.id)} className={`dot${dot.run.state === "succeeded" || dot.run.state === "running" ? "" : " wrong"}`} tabIndex={place === (at ?? 0) ? 0 : -1}
            aria-label={`${dot.run.name}: ${y.title} ${textOf(y, dot.run)}, ${x.title} ${textOf(x, dot.run)}`}
            style={{ left: `${100 * across.at(dot.x)}%`, bottom: `${100 * up.at(dot.y)}%`, "--who": `var(${colours.get(of(dot.run))})` } as React.CSSProperties}
            onFocus={() => setAt(place)} onMouseEnter={() => setAt(place)}
          />
        ))}
      </div>
      <p className="dim scatter-says" aria-hidden="true">{seen ? <><b>{seen.run.name}</b> {y.title} {textOf(y, seen.run)} · {x.title} {textOf(x, seen.run)}</> : <>{y.title} over {x.title}{(up.log || across.log) && ", logarithmic"}; a ring did not succeed</>}</p>
      <ul className="plain run-legend">{[...colours].slice(0, MOST_COLOURS).map(([name, colour]) => <li key={name}><i style={{ background: `var(${colour})` }} />{name}</li>)}</ul>
    </>
  );
}
