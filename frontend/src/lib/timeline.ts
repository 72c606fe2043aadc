/** Where bars, ticks and rows of a timeline stand: times become percent of its width. */
import { hourOf } from "./format";

export interface Span {
  id: string;
  row: string;
  from: number;
  /** Null: nobody knows when it ends. */
  to: number | null;
  /** Where what is known ends and what is expected begins. */
  sure?: number;
  tone: string;
  who: string;
  label: string;
  /** All of it, in words. */
  says: string;
}

interface Placed {
  span: Span;
  left: number;
  width: number;
  /** Of the width, what is only expected. */
  expected: number;
  /** Goes on beyond the right edge, or without an end. */
  open: boolean;
  lane: number;
}

export interface TimeRow {
  id: string;
  title: string;
  bars: Placed[];
  lanes: number;
}

const HOUR = 3600;
const STEPS = [300, 900, 1800, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, 24 * HOUR, 48 * HOUR, 168 * HOUR];
const MOST_TICKS = 8;

/** Round times of the local clock, eight at most. */
export function ticksOf(since: number, until: number, offsetMinutes = new Date(since * 1000).getTimezoneOffset()): number[] {
  const step = STEPS.find((one) => (until - since) / one <= MOST_TICKS) ?? 30 * 24 * HOUR;
  const shift = offsetMinutes * 60;
  const out: number[] = [];
  for (let at = Math.ceil((since - shift) / step) * step + shift; at <= until; at += step) out.push(at);
  return out;
}

export const tickText = (at: number, now: number): string => hourOf(at, now);

/** The rows in the order of their titles as given, each with its bars in as few lanes as they need. */
export function placed(rows: { id: string; title: string }[], spans: Span[], since: number, until: number): TimeRow[] {
  const share = (at: number) => (100 * (Math.min(Math.max(at, since), until) - since)) / (until - since);
  const seen = spans.filter((span) => span.from < until && (span.to ?? Infinity) > since);
  return rows.map(({ id, title }) => {
    const ends: number[] = []; // of each lane
    const bars = seen.filter((span) => span.row === id).sort((a, b) => a.from - b.from || (b.to ?? Infinity) - (a.to ?? Infinity)).map((span) => {
      const left = share(span.from);
      const right = share(span.to ?? until);
      const free = ends.findIndex((end) => end <= span.from);
      const lane = free < 0 ? ends.length : free;
      ends[lane] = span.to ?? Infinity;
      const sure = share(span.sure ?? span.to ?? until);
      return { span, left, width: right - left, expected: right > left ? Math.max(0, Math.min(1, (right - Math.max(sure, left)) / (right - left))) : 0, open: span.to === null || span.to > until, lane };
    });
    return { id, title, bars, lanes: Math.max(1, ends.length) };
  });
}

/** The bar that an arrow key goes to: along its row, or to the nearest of the next row that has any. */
export function neighbour(rows: TimeRow[], id: string, key: string): string | null {
  const place = rows.findIndex((row) => row.bars.some((bar) => bar.span.id === id));
  const here = rows[place]?.bars ?? [];
  const at = here.findIndex((bar) => bar.span.id === id);
  if (key === "ArrowLeft" || key === "ArrowRight") return here[at + (key === "ArrowLeft" ? -1 : 1)]?.span.id ?? null;
  const step = key === "ArrowUp" ? -1 : 1;
  for (let next = place + step; rows[next]; next += step) {
    const bars = rows[next]?.bars ?? [];
    const near = [...bars].sort((a, b) => Math.abs(a.left - (here[at]?.left ?? 0)) - Math.abs(b.left - (here[at]?.left ?? 0)))[0];
    if (near) return near.span.id;
  }
  return null;
}

/** A colour for each user, the same on every page that lists the same people. */
export function coloursOf(people: Iterable<string>): Map<string, string> {
  const names = [...new Set(people)].sort();
  return new Map(names.map((name, place) => [name, `--run-${(place % 8) + 1}`]));
}
