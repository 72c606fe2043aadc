/** The time range that all charts of a page share, in the address: Back undoes a zoom. */
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Span } from "../api/ports";
import { keep, push } from "../lib/router";
import { useLive } from "../live/store";
import type { Sheet } from "./saving";
import { begunView, chosen, COMPARED, doubled, fetchSpan, moved, pointsOf, queryOf, reset, selected, type View, viewOf, zoomed } from "./span";

/** The range that is shown, and what a hand on a chart does to it. */
export interface Stage {
  since: number;
  until: number;
  view?: View;
  select: (since: number, until: number) => void;
  /** `again`: one of many steps of one gesture, which Back undoes together. */
  zoom: (factor: number, around?: number | null, again?: boolean) => void;
  move: (share: number) => void;
  reset: () => void;
}

export interface Room extends Stage {
  view: View;
  now: number;
  /** What to fetch. */
  asked: Span;
  points: number;
  /** What it is compared with: its name, and how many seconds before. */
  before: { name: string; seconds: number } | null;
  compare: (name: string) => void;
  /** The values of what is drawn, by device. */
  sheets: Map<string, () => Sheet>;
  /** Tells when something that is shown was first read in this range. */
  begins: (name: string, at: number) => void;
  choose: (seconds: number) => void;
  /** Up to now. */
  follow: () => void;
}

export const ONE_GESTURE_MS = 900;

export function useRoom(query: URLSearchParams, pointedAt: () => number | null, most?: number, step?: number): Room {
  const now = useLive((n) => n.snapshot?.at ?? 0);
  const view = useMemo(() => viewOf(query), [query]);
  const firsts = useMemo(() => new Map<string, number>(), [view.seconds, view.until]);
  const [, drawAgain] = useState(0);
  const begins = useCallback((name: string, at: number) => {
    // What is fetched in finer steps is known better: it moves later alone, and no further than the first reading.
    if (at === Infinity || at <= (firsts.get(name) ?? 0) + 1) return;
    firsts.set(name, at);
    drawAgain(at);
  }, [firsts]);
  const begun = begunView(view, now, Math.min(...firsts.values()));
  const read = doubled(begun, view);
  const points = pointsOf(read.seconds, most);
  const { since: first, until: last } = fetchSpan(read, now, points, step);
  const asked = useMemo(() => ({ since: first, until: last }), [first, last]);
  const until = view.until ?? now;
  const latest = useRef({ view, begun, now, query });
  latest.current = { view, begun, now, query };
  const zoomedAt = useRef(0);
  const sheets = useMemo(() => new Map<string, () => Sheet>(), []);
  const found = COMPARED.find(([name]) => name === query.get("compare"));
  const before = useMemo(() => (found ? { name: found[1], seconds: found[2] } : null), [found]);
  const acts = useMemo(() => {
    const show = (next: View, put = push) => put(queryOf(next, latest.current.query));
    return {
      choose: (seconds: number) => show(chosen(seconds)),
      select: (since: number, end: number) => show(selected(latest.current.view, since, end)),
      zoom: (factor: number, around: number | null = null, again = false) => {
        const soon = again && performance.now() - zoomedAt.current < ONE_GESTURE_MS;
        zoomedAt.current = performance.now();
        show(zoomed(factor < 1 ? latest.current.begun : latest.current.view, latest.current.now, factor, around), soon ? keep : push);
      },
      move: (share: number) => show(moved(latest.current.view, latest.current.now, share), keep),
      reset: () => {
        const { until: end, seconds, range } = latest.current.view;
        if (end !== null || seconds !== range) show(reset(latest.current.view));
      },
      compare: (name: string) => {
        const next = new URLSearchParams(latest.current.query);
        if (name) next.set("compare", name);
        else next.delete("compare");
        push(next);
      },
      follow: () => show({ ...latest.current.view, until: null }),
    };
  }, []);
  const room = { view, now, since: until - begun.seconds, until, asked, points, before, sheets, begins, ...acts };
  useKeys(acts, pointedAt);
  return room;
}

type Acts = Pick<Stage, "zoom" | "move" | "reset">;

/** Keys: [ and ] move, + and - zoom (around the cursor), 0 resets, and Escape where it has nothing else to end. */
export function useKeys(acts: Acts, pointedAt: () => number | null): void {
  const pressed = useCallback((event: KeyboardEvent) => {
    if ((event.target as HTMLElement).closest?.("input, textarea, select, dialog, details") || event.defaultPrevented || event.ctrlKey || event.metaKey) return;
    if (event.key === "[") acts.move(-0.5);
    else if (event.key === "]") acts.move(0.5);
    else if (event.key === "+" || event.key === "=") acts.zoom(0.5, pointedAt());
    else if (event.key === "-") acts.zoom(2, pointedAt());
    else if (event.key === "0" || event.key === "Escape") acts.reset();
  }, [acts, pointedAt]);
  useEffect(() => {
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, [pressed]);
}
