/** The week by GPU: leases with their ends, what is expected, and reservations; drag over hours to reserve them. */
import { useRef, useState } from "react";
import { send } from "../api/client";
import type { Job, Leases, Reservation } from "../api/types";
import { useJobs } from "../api/ports";
import { useMay } from "../lib/access";
import { useChange } from "../lib/change";
import { hourOf } from "../lib/format";
import { useMe } from "../lib/me";
import { deviceLink, go, leaseLink } from "../lib/router";
import { coloursOf, placed } from "../lib/timeline";
import { type Cell, gpusOf, HOUR, hourAt, idOf, moved, type Range, rangeOf, reservedSpans, summaryOf, timeOf, weekOf } from "../lib/week";
import { live } from "../live/store";
import { Command } from "../parts/Command";
import { Reserve } from "../parts/Reserve";
import { WeekRows } from "../parts/WeekRows";
import { QUEUE } from "./jobs/timeline";
import { daySpans, peopleOf } from "./leaseSpans";

const NO_JOBS: Job[] = [];
const USUAL_HOURS = 2;
const KEYS = "Arrow keys move by an hour and by a GPU, with Shift by a day. Enter begins a range and ends it, Escape leaves it.";
const moment = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

type Shown = { range: Range } | { reservation: Reservation } | null;

export function WeekAhead({ list }: { list: Leases }) {
  const [shown, setShown] = useState<Shown>(null);
  const jobs = useJobs((jobs) => jobs.list("active", "jobs")).data?.jobs ?? NO_JOBS;
  const now = list.at;
  const start = Math.ceil(now / HOUR) * HOUR;
  const labels = list.devices.map((one) => one.label);
  const first = list.devices.findIndex((one) => one.kind === "free");
  return (
    <section className="plan week" aria-label="the week">
      <div className="ranges">
        <h2>The week</h2>
        <span className="dim">{summaryOf(list.reservations, now)}</span>
        <Command text="andon reservations" />
        <button type="button" className="main" onClick={() => setShown({ range: { rows: [Math.max(first, 0), Math.max(first, 0)], from: start, to: start + USUAL_HOURS * HOUR } })}>Reserve…</button>
      </div>
      <Grid list={list} jobs={jobs} now={now} onPicked={(range) => setShown({ range })} onReservation={(reservation) => setShown({ reservation })} />
      {list.reservations.length > 0 && (
        <ul className="plain reservations" aria-label="reservations">
          {list.reservations.map((one) => (
            <li key={idOf(one)}>
              <button type="button" className="quiet" onClick={() => setShown({ reservation: one })}><code>{one.id}</code> <b>{one.user}</b></button>{" "}
              {gpusOf(labelsOf(one))} {timeOf(one, now)}
              <span className="dim">{one.begins <= now && (one.used ? " · in use" : one.blocked ? " · waits for an older lease" : ` · not used yet${one.lapses === null ? "" : `, given back at ${hourOf(one.lapses, now)}`}`)}{one.name && ` · ${one.name}`}</span>
            </li>
          ))}
        </ul>
      )}
      <CalendarLink />
      {shown && (
        <Reserve
          key={"range" in shown ? "new" : idOf(shown.reservation)} now={now} onClose={() => setShown(null)}
          devices={list.devices.map(({ uuid }, place) => ({ uuid, label: labels[place] as string }))} {...shown}
        />
      )}
    </section>
  );
}

/** A link for a calendar program, which whoever has it can read; a new one ends the one before. */
function CalendarLink() {
  const may = useMay("link_calendar", useMe());
  const change = useChange("leases");
  const [link, setLink] = useState<string | null>(null);
  if (!may) return null;
  const make = () => change.mutate(async () => setLink(location.origin + (await send<{ path: string }>("POST", "/api/calendar")).path));
  return (
    <p className="calendar-link">
      {link && <><Command label="your reservations, for a calendar program" text={link} /><span className="dim">Whoever has it reads them; with ?everyone=true those of all.</span></>}
      <button type="button" onClick={make} disabled={change.isPending}>{link ? "New link" : "Calendar link"}</button>
      <button type="button" className="quiet" disabled={change.isPending} onClick={() => change.mutate(async () => (await send("DELETE", "/api/calendar"), setLink(null)))}>End my link</button>
      {change.error && <span role="alert" className="wrong">{change.error.oneLine}</span>}
    </p>
  );
}

export const labelsOf = (one: Reservation): string[] => one.devices.map(({ uuid, index }) => (live.device(uuid) ? live.label(uuid) : String(index)));

interface GridProps {
  list: Leases;
  jobs: Job[];
  now: number;
  onPicked: (range: Range) => void;
  onReservation: (one: Reservation) => void;
}

function Grid({ list, jobs, now, onPicked, onReservation }: GridProps) {
  const me = useMe();
  const box = useRef<HTMLDivElement>(null);
  const [begun, setBegun] = useState<Cell | null>(null); // where a range begins
  const [cursor, setCursor] = useState<Cell | null>(null);
  const days = weekOf(now);
  const since = days[0] as number;
  const until = days[days.length - 1] as number;
  const rows = list.devices.map((one) => ({ id: one.uuid, title: `GPU ${one.label}` }));
  const spans = [...daySpans(list, jobs), ...reservedSpans(list.reservations, now)];
  const queued = spans.some((span) => span.row === QUEUE) ? [{ id: QUEUE, title: "waiting" }] : [];
  const found = placed([...rows, ...queued], spans, since, until);
  const colours = coloursOf(peopleOf(list, spans));
  const range = cursor && rangeOf(begun ?? cursor, cursor, now);
  const start = { row: 0, at: hourAt(days, now, now) };
  const leave = () => (setBegun(null), setCursor(null));
  const finish = () => {
    if (range) onPicked(begun && begun !== cursor && range.to - range.from > HOUR ? range : { ...range, to: Math.min(range.to + (USUAL_HOURS - 1) * HOUR, until) });
    leave();
  };
  /** The cell under the pointer; rows are as high as what stands in them. */
  const under = (event: React.PointerEvent): Cell | null => {
    const tracks = [...(box.current?.querySelectorAll<HTMLElement>("[data-row]") ?? [])];
    const place = tracks.findIndex((one) => event.clientY < one.getBoundingClientRect().bottom);
    const row = place < 0 ? tracks.length - 1 : place;
    const area = tracks[row]?.getBoundingClientRect();
    return area ? { row, at: hourAt(days, since + ((event.clientX - area.left) / area.width) * (until - since), now) } : null;
  };
  const down = (event: React.PointerEvent) => {
    if (event.button !== 0 || (event.target as Element).closest("button, a, .row-title")) return;
    const cell = under(event);
    setBegun(cell);
    setCursor(cell);
    if (event.pointerType === "mouse") box.current?.setPointerCapture(event.pointerId);
  };
  const pressed = (event: React.KeyboardEvent) => {
    if (event.target !== box.current) return;
    const at = cursor ?? start;
    const next = moved(at, event.key, event.shiftKey, rows.length, days, now);
    if (next) setCursor(next);
    else if (event.key === "Escape" && cursor) leave();
    else if (event.key === "Enter" && begun) finish();
    else if (event.key === "Enter") {
      const own = list.reservations.find((one) => one.begins < at.at + HOUR && at.at < one.ends && one.devices.some(({ uuid }) => uuid === rows[at.row]?.id));
      if (own) onReservation(own);
      else (setCursor(at), setBegun(at));
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const chosen = (id: string) => {
    const one = list.reservations.find((reservation) => id.startsWith(`${idOf(reservation)} `));
    if (one) onReservation(one);
    else if (!id.startsWith(QUEUE)) go(leaseLink(id.split(" ")[0] as string));
  };
  const says = range && (begun ? `${titles(rows, range)} from ${moment.format(range.from * 1000)} to ${moment.format(range.to * 1000)}` : `${rows[range.rows[0]]?.title}, ${moment.format(range.from * 1000)}`);
  return (
    <div
      ref={box} className="timeline week-grid" tabIndex={0} role="application" aria-label={`hours by GPU. ${KEYS}`} aria-roledescription="week"
      onFocus={({ target }) => target === box.current && target.matches(":focus-visible") && setCursor(start)} onKeyDown={pressed} onPointerDown={down} onPointerMove={(event) => begun && event.buttons === 1 && setCursor(under(event))} onPointerUp={() => begun && finish()} onPointerCancel={leave} onBlur={leave}
    >
      <WeekRows
        days={days} now={now} rows={found} cells={rows.length} colours={colours} me={me} onBar={({ id }) => chosen(id)}
        title={(row) => (live.device(row.id) ? <a href={deviceLink(row.id)} tabIndex={-1}>{row.title}</a> : row.title)}
        over={(row, place) => range && row >= range.rows[0] && row <= range.rows[1] && <i className={`picked${begun ? " begun" : ""}`} style={place(range.from, range.to)} />}
      />
      <p className="hint dim" role="status">{says ?? "Drag over hours to reserve them; a reservation opens."}</p>
    </div>
  );
}

const titles = (rows: { title: string }[], { rows: [first, last] }: Range): string => (first === last ? `${rows[first]?.title}` : `${rows[first]?.title} to ${rows[last]?.title.replace("GPU ", "")}`);
