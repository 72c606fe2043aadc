/** The time range shown: the last N seconds, or a fixed range in the past. */
import type { Span } from "../api/queries";

export const RANGES: [string, number][] = [
  ["5 min", 300], ["30 min", 1_800], ["2 h", 7_200], ["12 h", 43_200], ["1 d", 86_400],
  ["7 d", 604_800], ["30 d", 2_592_000], ["1 y", 31_536_000],
];
export const SHORTEST = 60;
export const LONGEST = 2 * 31_536_000;

export interface View {
  /** null: up to now. */
  until: number | null;
  seconds: number;
}

export function viewOf(query: URLSearchParams): View {
  const seconds = Number(query.get("seconds") ?? 300);
  const until = Number(query.get("until") ?? 0);
  return {
    seconds: seconds >= SHORTEST && seconds <= LONGEST ? seconds : 300,
    until: until > 0 ? until : null,
  };
}

export function queryOf(view: View): URLSearchParams {
  const query = new URLSearchParams({ seconds: String(Math.round(view.seconds)) });
  if (view.until !== null) query.set("until", String(Math.round(view.until)));
  return query;
}

/** A point covers at least two readings, so that a late one leaves no gap. */
export function pointsOf(seconds: number): number {
  return Math.max(30, Math.min(360, Math.floor(seconds / 2)));
}

/** The range to fetch; it moves in steps, so that it is not fetched again every second. */
export function fetchSpan(view: View, now: number): Span {
  const width = view.seconds / pointsOf(view.seconds);
  if (view.until !== null) return { since: view.until - view.seconds, until: view.until };
  const step = Math.max(5, width);
  const until = Math.ceil(now / step) * step;
  return { since: until - view.seconds - step, until };
}

export function moved(view: View, now: number, share: number): View {
  const until = (view.until ?? now) + share * view.seconds;
  return { ...view, until: until >= now ? null : until };
}

export function zoomed(view: View, now: number, factor: number): View {
  const seconds = Math.max(SHORTEST, Math.min(LONGEST, view.seconds * factor));
  if (view.until === null) return { ...view, seconds };
  const middle = view.until - view.seconds / 2;
  const until = middle + seconds / 2;
  return { seconds, until: until >= now ? null : until };
}
