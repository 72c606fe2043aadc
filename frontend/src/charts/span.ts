/** The time range shown: the last N seconds, or a fixed range in the past. */
import type { Span } from "../api/ports";

/** What a button says, its seconds, and the same as the commands accept it. */
export const RANGES: [string, number, string][] = [
  ["5 min", 300, "5m"], ["30 min", 1_800, "30m"], ["2 h", 7_200, "2h"], ["12 h", 43_200, "12h"],
  ["1 d", 86_400, "1d"], ["7 d", 604_800, "7d"], ["30 d", 2_592_000, "30d"], ["1 y", 31_536_000, "365d"],
];
export const SHORTEST = 60;
export const LONGEST = 2 * 31_536_000;
const LATEST = 253_402_300_799; // the year 9999: a Date goes no further than 275760
const FIRST = 7_200; // the last hours, from the history

/** An earlier time to compare with: its name in the address, what it is called, and how long ago. */
export const COMPARED: [string, string, number][] = [["day", "yesterday", 86_400], ["week", "last week", 604_800]];

export interface View {
  /** null: up to now. */
  until: number | null;
  seconds: number;
  /** The range that was last chosen by its button: a reset returns to it. */
  range: number;
}

export function viewOf(query: URLSearchParams): View {
  const seconds = within(query.get("seconds"), FIRST);
  const until = Number(query.get("until") ?? 0);
  return { seconds, until: until > 0 && until <= LATEST ? until : null, range: within(query.get("range"), seconds) };
}

function within(text: string | null, otherwise: number): number {
  const seconds = Number(text ?? 0);
  return seconds >= SHORTEST && seconds <= LONGEST ? seconds : otherwise;
}

/** `query` with this view; its other members stay. */
export function queryOf(view: View, query: URLSearchParams = new URLSearchParams()): URLSearchParams {
  const next = new URLSearchParams(query);
  for (const name of ["seconds", "until", "range"]) next.delete(name);
  next.set("seconds", String(Math.round(view.seconds)));
  if (view.until !== null) next.set("until", String(Math.round(view.until)));
  if (Math.round(view.range) !== Math.round(view.seconds)) next.set("range", String(Math.round(view.range)));
  return next;
}

export const chosen = (seconds: number): View => ({ seconds, until: null, range: seconds });
export const reset = (view: View): View => chosen(view.range);

/** A point covers at least two readings, so that a late one leaves no gap. */
export function pointsOf(seconds: number, most = 360): number {
  return Math.max(30, Math.min(most, Math.floor(seconds / 2)));
}

/** The range to fetch; it moves in steps, so that it is not fetched again every second. */
export function fetchSpan(view: View, now: number, points = pointsOf(view.seconds), least = 5): Span {
  if (view.until !== null) return { since: view.until - view.seconds, until: view.until };
  const step = Math.max(least, view.seconds / points);
  const until = Math.ceil(now / step) * step;
  return { since: until - view.seconds - step, until };
}

const FULL = 0.95; // of the range: what is missing there is not worth another scale

/** A range up to now begins with the first reading in it, where one is known: nothing is missing before that. */
export function begunView(view: View, now: number, first: number): View {
  const seconds = Math.max(SHORTEST, now - first);
  return view.until === null && first < Infinity && seconds < FULL * view.seconds ? { ...view, seconds } : view;
}

/** What to fetch for a range that grows with every second: the next of few lengths. */
export function doubled(begun: View, whole: View): View {
  return { ...begun, seconds: Math.min(whole.seconds, SHORTEST * 2 ** Math.ceil(Math.log2(begun.seconds / SHORTEST))) };
}

export function moved(view: View, now: number, share: number): View {
  const until = (view.until ?? now) + share * view.seconds;
  return { ...view, until: until >= now ? null : until };
}

/** Zoomed around an instant, by default the middle; what ends now still does. */
export function zoomed(view: View, now: number, factor: number, around: number | null = null): View {
  const seconds = Math.max(SHORTEST, Math.min(LONGEST, view.seconds * factor));
  const end = view.until ?? now;
  if (view.until === null && around === null) return { ...view, seconds };
  const pivot = around ?? end - view.seconds / 2;
  const until = pivot + ((end - pivot) * seconds) / view.seconds;
  return { ...view, seconds, until: until >= now ? null : until };
}

/** Exactly this range, at least a minute long. */
export function selected(view: View, since: number, until: number): View {
  const seconds = Math.min(LONGEST, Math.max(SHORTEST, Math.round(until - since)));
  return { ...view, seconds, until: Math.round((since + until + seconds) / 2) };
}

/** The command that prints the same range. */
export function commandOf(what: string, view: View): string {
  if (view.until !== null) {
    return `${what} --since ${stampOf(view.until - view.seconds)} --until ${stampOf(view.until)}`;
  }
  const named = RANGES.find(([, seconds]) => seconds === view.seconds)?.[2];
  return `${what} --since ${named ?? `${Math.round(view.seconds)}s`}`;
}

/** To the second, with the offset of this browser: the same instant wherever it is pasted. */
export function stampOf(at: number): string {
  const date = new Date(Math.round(at) * 1000);
  const minutes = -date.getTimezoneOffset();
  const two = (value: number) => String(Math.floor(Math.abs(value))).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return `${day}T${time}${minutes < 0 ? "-" : "+"}${two(minutes / 60)}:${two(minutes % 60)}`;
}
