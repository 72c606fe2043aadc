/** Where days, hours and reservations of a week stand; a day has the hours that its clock has: 23, 24 or 25. */
import type { Reservation } from "../api/types";
import { count, duration, hourOf } from "./format";
import type { Span } from "./timeline";

export const HOUR = 3600;
const DAYS = 7;

/** An hour of a GPU: its row, and when it begins. */
export interface Cell {
  row: number;
  at: number;
}

/** What is to be reserved: rows from the first to the last, and a time. */
export interface Range {
  rows: [number, number];
  from: number;
  to: number;
}

/** Midnights of the local clock: that of today, and of the seven days that follow. */
export function weekOf(now: number, days = DAYS): number[] {
  const today = new Date(now * 1000);
  return Array.from({ length: days + 1 }, (_, day) => new Date(today.getFullYear(), today.getMonth(), today.getDate() + day).getTime() / 1000);
}

/** The beginning of the hour that is at a time, counted from its day's midnight: within the week, and not over. */
export function hourAt(days: number[], at: number, now: number): number {
  const last = days[days.length - 1] as number;
  const within = Math.min(Math.max(at, now), last - 1);
  const day = [...days].reverse().find((midnight) => midnight <= within) ?? (days[0] as number);
  return day + Math.floor((within - day) / HOUR) * HOUR;
}

/** Where a key takes the cursor; null for one that does not. With shift, by a day: to the same hour of the clock. */
export function moved(cell: Cell, key: string, shift: boolean, rows: number, days: number[], now: number): Cell | null {
  const along = (step: number) => {
    const clock = new Date(cell.at * 1000);
    if (shift) clock.setDate(clock.getDate() + step);
    return { ...cell, at: hourAt(days, shift ? clock.getTime() / 1000 : cell.at + step * HOUR, now) };
  };
  const across = (step: number) => ({ ...cell, row: Math.min(Math.max(cell.row + step, 0), rows - 1) });
  switch (key) {
    case "ArrowLeft": return along(-1);
    case "ArrowRight": return along(1);
    case "ArrowUp": return across(-1);
    case "ArrowDown": return across(1);
    case "Home": return { ...cell, at: hourAt(days, now, now) };
    case "End": return { ...cell, at: hourAt(days, Infinity, now) };
    default: return null;
  }
}

/** From one cell to another, both included; what has begun begins now. */
export function rangeOf(one: Cell, other: Cell, now: number): Range {
  const rows: [number, number] = [Math.min(one.row, other.row), Math.max(one.row, other.row)];
  return { rows, from: Math.max(Math.min(one.at, other.at), now), to: Math.max(one.at, other.at) + HOUR };
}

/** A bar for each GPU of each reservation. */
export function reservedSpans(reservations: Reservation[], now: number): Span[] {
  return reservations.flatMap((one) => one.devices.map(({ uuid }): Span => ({
    id: `${idOf(one)} ${uuid}`, row: uuid, from: one.begins, to: one.ends, tone: "reserved", who: one.user,
    label: one.name ? `${one.user} · ${one.name}` : one.user, says: `${one.name ? `${one.user} · ${one.name}` : one.user}: reserved ${timeOf(one, now)}`,
  })));
}

const EXTENSION = HOUR;

/** Another user's reservation that keeps a lease from being extended by an hour: it is said an hour before the end. */
export function endsFor(uuids: string[], user: string, until: number | null, reservations: Reservation[], at: number): Reservation | null {
  if (until === null || until - at > HOUR || until <= at) return null;
  return reservations.find((one) => one.user !== user && one.begins >= until && one.begins < until + EXTENSION && one.devices.some(({ uuid }) => uuids.includes(uuid))) ?? null;
}

/** Files of two users may have one name. */
export const idOf = (one: Pick<Reservation, "id" | "uid">): string => `reserved/${one.id}/${one.uid}`;

/** "from 18:00 to Sat 06:00, 12 h". */
export const timeOf = (one: Pick<Reservation, "begins" | "ends">, now: number): string => `from ${hourOf(one.begins, now)} to ${hourOf(one.ends, now)}, ${duration(one.ends - one.begins)}`;

/** "GPU 2", "GPUs 0, 4–7". */
export function gpusOf(labels: string[]): string {
  const runs: string[][] = [];
  for (const label of labels) {
    const run = runs[runs.length - 1];
    if (run && /^\d+$/.test(label) && Number(label) === Number(run[run.length - 1]) + 1) run.push(label);
    else runs.push([label]);
  }
  return `GPU${labels.length === 1 ? "" : "s"} ${runs.map((run) => (run.length > 2 ? `${run[0]}–${run[run.length - 1]}` : run.join(", "))).join(", ")}`;
}

const two = (value: number) => String(value).padStart(2, "0");

/** A time as an input of a form has it, by the local clock. */
export function localText(at: number): string {
  const time = new Date(at * 1000);
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}T${two(time.getHours())}:${two(time.getMinutes())}`;
}

/** The same with its zone, which means the same wherever it is typed. */
function zoned(at: number): string {
  const zone = -new Date(at * 1000).getTimezoneOffset();
  return zone === 0 ? `${localText(at)}Z` : `${localText(at)}${zone < 0 ? "-" : "+"}${two(Math.floor(Math.abs(zone) / 60))}:${two(Math.abs(zone) % 60)}`;
}

/** "12h", "90m", as commands take it. */
export const lengthOf = (seconds: number): string => (seconds % HOUR ? `${Math.round(seconds / 60)}m` : `${seconds / HOUR}h`);

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
const span = (from: number | null, to: number, begins: number) => `${from === null ? "" : ` --from ${zoned(from)}`} --for ${lengthOf(to - begins)}`;

/** The command that reserves these; without a start, it begins when it is typed. */
export function reserveCommand(labels: string[], from: number, to: number, name: string, now: number, weeks = 1): string {
  return `andon reserve --gpus ${labels.length} -d ${labels.join(",")}${span(from <= now ? null : from, to, from)}${weeks > 1 ? ` --weekly ${weeks}` : ""}${name ? ` --name ${quoted(name)}` : ""}`;
}

export const changeCommand = (id: string, from: number | null, begins: number, to: number): string => `andon reserve change ${id}${span(from, to, begins)}`;

/** "3 reservations, the next at 18:00": what stands beside the title. */
export function summaryOf(reservations: Reservation[], now: number): string {
  const next = reservations.find((one) => one.begins > now);
  return reservations.length === 0 ? "nothing is reserved" : `${count(reservations.length, "reservation")}${next ? `, the next at ${hourOf(next.begins, now)}` : ""}`;
}
