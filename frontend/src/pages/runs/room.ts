/** The range of a run's charts: all of it, or what was zoomed to; in the address, so that Back undoes it. */
import { useMemo, useRef } from "react";
import { ONE_GESTURE_MS, type Stage, useKeys } from "../../charts/room";
import { keep, push } from "../../lib/router";
import { within } from "./data";

/** `from` and `to` of the address are seconds since the start; `begin` is where the axis has it. */
export function useRunStage(query: URLSearchParams, begin: number, last: number, pointedAt: () => number | null): Stage & { zoomed: boolean } {
  const length = Math.max(1, last);
  const text = `${query.get("from") ?? ""} ${query.get("to") ?? ""}`;
  const [from, to] = text.split(" ").map(Number) as [number, number];
  const part = to > from ? within(from, to, length) : null;
  const [since, until] = part ?? [0, length];
  const latest = useRef({ since, until, length, query, begin });
  latest.current = { since, until, length, query, begin };
  const zoomedAt = useRef(0);
  const acts = useMemo(() => {
    const show = (first: number, end: number, put = push) => {
      const next = new URLSearchParams(latest.current.query);
      const found = within(first, end, latest.current.length);
      if (found) (next.set("from", found[0].toFixed(1)), next.set("to", found[1].toFixed(1)));
      else (next.delete("from"), next.delete("to"));
      put(next);
    };
    return {
      select: (first: number, end: number) => show(first - latest.current.begin, end - latest.current.begin),
      zoom: (factor: number, around: number | null = null, again = false) => {
        const now = latest.current;
        const pivot = around === null ? (now.since + now.until) / 2 : around - now.begin;
        const soon = again && performance.now() - zoomedAt.current < ONE_GESTURE_MS;
        zoomedAt.current = performance.now();
        show(pivot - (pivot - now.since) * factor, pivot + (now.until - pivot) * factor, soon ? keep : push);
      },
      move: (part: number) => {
        const now = latest.current;
        const by = part * (now.until - now.since);
        const step = Math.max(-now.since, Math.min(by, now.length - now.until));
        show(now.since + step, now.until + step, keep);
      },
      reset: () => show(0, Infinity),
    };
  }, []);
  useKeys(acts, pointedAt);
  return { since: begin + since, until: begin + until, zoomed: part !== null, ...acts };
}
