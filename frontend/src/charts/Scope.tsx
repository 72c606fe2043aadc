/** Around the charts of a page: one range, one cursor line through all of them, one readout. */
import { type ReactNode, type RefObject, useEffect, useMemo, useRef } from "react";
import { dateOf, duration, momentOf } from "../lib/format";
import { live } from "../live/store";
import { Command } from "../parts/Command";
import { Cursor, CursorContext, usePointed } from "./cursor";
import { type Room, type Stage, useRoom } from "./room";
import { csvOf, fileName, pictureOf, save } from "./saving";
import { commandOf, COMPARED, RANGES } from "./span";

interface Props {
  query: URLSearchParams;
  /** The command whose range is added: `andon history 3`. */
  command: string;
  /** How many points, and how often they are fetched. */
  most?: number;
  step?: number;
  className?: string;
  /** What a picture or a file of it is called. */
  title?: string;
  /** More that belongs beside the ranges. */
  tools?: ReactNode;
  children: (room: Room) => ReactNode;
}

export function Scope({ query, command, most, step, className = "", title = "GPUs", tools, children }: Props) {
  const cursor = useMemo(() => new Cursor(), []);
  const place = useRef<HTMLElement>(null);
  const room = useRoom(query, () => cursor.get()?.at ?? null, most, step);
  return (
    <Frame room={room} cursor={cursor} className={className} place={place}>
      <Ranges room={room} command={command} first={tools}><Compare room={room} /><Saving room={room} place={place} title={title} /></Ranges>
      {children(room)}
    </Frame>
  );
}

/** One cursor line through all charts in it. */
export function Frame({ room, cursor, className = "", label = "over time", place: given, children }: { room: Stage; cursor: Cursor; className?: string; label?: string; place?: RefObject<HTMLElement | null>; children: ReactNode }) {
  const own = useRef<HTMLElement>(null);
  const place = given ?? own;
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
  }, [cursor, since, until, place]);
  return (
    <CursorContext.Provider value={cursor}>
      <section ref={place} className={`scope ${className}`} aria-label={label}>{children}</section>
    </CursorContext.Provider>
  );
}

/** Faintly behind what is shown: the same time a day or a week before. */
function Compare({ room }: { room: Room }) {
  const chosen = COMPARED.find(([, name]) => name === room.before?.name)?.[0] ?? "";
  return (
    <label className="compare">
      <span className="hidden">compare with</span>
      <select value={chosen} onChange={(event) => room.compare(event.target.value)}>
        <option value="">compare with…</option>
        {COMPARED.map(([name, words]) => <option key={name} value={name}>with {words}</option>)}
      </select>
    </label>
  );
}

function Saving({ room, place, title }: { room: Room; place: RefObject<HTMLElement | null>; title: string }) {
  const { node, simulated } = live.get().snapshot ?? { node: "", simulated: false };
  const range = `${dateOf(room.since)} to ${dateOf(room.until)}`;
  const name = (until: number) => fileName(`${node} ${title}`, until, simulated);
  const picture = async () => {
    const words = [simulated && "SIMULATED", node, title, range, room.before && `dashed: ${room.before.name}`];
    const made = place.current && await pictureOf(place.current, words.filter(Boolean).join(" · "));
    if (made) save(made, `${name(room.until)}.png`);
  };
  const values = () => {
    const text = csvOf([...room.sheets.values()].map((sheet) => sheet()), room.since, room.until);
    save(new Blob([text], { type: "text/csv" }), `${name(room.until)}.csv`);
  };
  return (
    <span role="group" aria-label="save what is shown" className="buttons saving">
      <button type="button" onClick={() => void picture()} title="a picture of these charts">PNG</button>
      <button type="button" onClick={values} title="the values of these charts">CSV</button>
    </span>
  );
}

function Ranges({ room, command, first, children }: { room: Room; command: string; first?: ReactNode; children: ReactNode }) {
  const { view } = room;
  const past = view.until !== null;
  const shorter = room.until - room.since < view.seconds;
  return (
    <div className="ranges">
      {first}
      <span role="group" aria-label="range" className="buttons">
        {RANGES.map(([name, seconds]) => (
          <button key={seconds} type="button" aria-pressed={view.seconds === seconds && !past} onClick={() => room.choose(seconds)}>
            {name.replace(" ", "\u00a0")}
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
      {children}
      <span className="dim">{past ? `${dateOf(room.since)} to ${dateOf(room.until)}` : `${shorter ? `${duration(room.until - room.since)} recorded of the ` : ""}last ${duration(view.seconds)}`}</span>
      <Command text={commandOf(command, view)} />
    </div>
  );
}

/** One line of a readout. */
export interface Told {
  label: string;
  colour: string | null;
  value: string;
  /** What it was at the time that it is compared with. */
  then?: string;
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
              <dd>{row.value}{row.then && <span className="dim"> · {row.then}</span>}</dd>
            </div>
          ))}
        </dl>
      ) : <p className="dim">no reading</p>}
    </div>
  );
}
