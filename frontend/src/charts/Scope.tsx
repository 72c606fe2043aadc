/** Around the charts of a page: one range, one cursor line through all of them, one readout. */
import { type ReactNode, useEffect, useMemo, useRef } from "react";
import { dateOf, duration, momentOf } from "../lib/format";
import { Command } from "../parts/Command";
import { Cursor, CursorContext, usePointed } from "./cursor";
import { type Room, type Stage, useRoom } from "./room";
import { commandOf, RANGES } from "./span";

interface Props {
  query: URLSearchParams;
  /** The command whose range is added: `andon history 3`. */
  command: string;
  /** How many points, and how often they are fetched. */
  most?: number;
  step?: number;
  className?: string;
  /** More that belongs beside the ranges. */
  tools?: ReactNode;
  children: (room: Room) => ReactNode;
}

export function Scope({ query, command, most, step, className = "", tools, children }: Props) {
  const cursor = useMemo(() => new Cursor(), []);
  const room = useRoom(query, () => cursor.get()?.at ?? null, most, step);
  return (
    <Frame room={room} cursor={cursor} className={className}>
      <Ranges room={room} command={command}>{tools}</Ranges>
      {children(room)}
    </Frame>
  );
}

/** One cursor line through all charts in it. */
export function Frame({ room, cursor, className = "", children }: { room: Stage; cursor: Cursor; className?: string; children: ReactNode }) {
  const place = useRef<HTMLElement>(null);
  const { since, until } = room;
  useEffect(() => {
    const draw = () => {
      const at = cursor.get()?.at;
      const share = at === undefined ? -1 : (at - since) / (until - since);
      place.current?.style.setProperty("--cursor", String(share));
      place.current?.classList.toggle("pointing", share >= 0 && share <= 1);
    };
    draw();
    return cursor.subscribe(draw);
  }, [cursor, since, until]);
  return (
    <CursorContext.Provider value={cursor}>
      <section ref={place} className={`scope ${className}`} aria-label="over time">{children}</section>
    </CursorContext.Provider>
  );
}

function Ranges({ room, command, children }: { room: Room; command: string; children?: ReactNode }) {
  const { view } = room;
  const past = view.until !== null;
  return (
    <div className="ranges">
      {children}
      <span role="group" aria-label="range" className="buttons">
        {RANGES.map(([name, seconds]) => (
          <button key={seconds} type="button" aria-pressed={view.seconds === seconds && !past} onClick={() => room.choose(seconds)}>
            {name}
          </button>
        ))}
      </span>
      <span role="group" aria-label="move" className="buttons">
        <button type="button" onClick={() => room.move(-0.5)} aria-label="earlier">◀</button>
        <button type="button" onClick={() => room.move(0.5)} aria-label="later" disabled={!past}>▶</button>
        <button type="button" onClick={() => room.zoom(0.5)} aria-label="zoom in">+</button>
        <button type="button" onClick={() => room.zoom(2)} aria-label="zoom out">−</button>
        <button type="button" onClick={() => room.follow()} disabled={!past}>now</button>
        <button type="button" onClick={() => room.reset()} disabled={!past && view.seconds === view.range}>reset</button>
      </span>
      <span className="dim">{past ? `${dateOf(room.since)} to ${dateOf(room.until)}` : `last ${duration(view.seconds)}`}</span>
      <Command text={commandOf(command, view)} />
    </div>
  );
}

/** One line of a readout. */
export interface Told {
  label: string;
  colour: string | null;
  value: string;
}

/** "2026-11-11 04:12 (10 min)": when a span begins, and how long it is if that is more than a moment. */
export function spanText(at: number, width: number): string {
  return width >= 60 ? `${dateOf(at)} (${duration(width)})` : momentOf(at);
}

interface ReadoutProps {
  /** How the names of the charts end that it speaks for. */
  mine: string;
  told: (at: number, chart: string) => { at: number; rows: Told[] } | null;
  /** How long the span is that an instant lies in. */
  width: (at: number) => number;
  /** What the instant is called; else its date and time. */
  when?: (at: number) => string;
}

/** Beside the cursor: the time, and what every chart has there. */
export function Readout({ mine, told, width, when }: ReadoutProps) {
  const shown = usePointed((now) => (now?.chart.endsWith(mine) ? JSON.stringify([now.at, now.chart, now.x, now.y]) : null));
  if (shown === null) return null;
  const [at, chart, x, y] = JSON.parse(shown) as [number, string, number, number];
  const found = told(at, chart);
  const [wide, high] = [window.innerWidth, window.innerHeight];
  const side = x > wide / 2 ? { right: wide - x + 16 } : { left: x + 16 };
  const level = y > high / 2 ? { bottom: high - y + 12 } : { top: y + 12 };
  return (
    <div className="readout" aria-hidden="true" style={{ ...side, ...level }}>
      <b>{when ? when(found?.at ?? at) : spanText(found?.at ?? at, width(at))}</b>
      {found ? (
        <dl>
          {found.rows.map((row) => (
            <div key={row.label}>
              <dt>{row.colour && <i style={{ background: `var(${row.colour})` }} />}{row.label}</dt>
              <dd>{row.value}</dd>
            </div>
          ))}
        </dl>
      ) : <p className="dim">no reading</p>}
    </div>
  );
}
