/** History and live readings in one set of columns. */
import type { Charts } from "../api/types";
import { METRICS, type Metric, type Ring } from "../live/rings";

/** null ends a line, undefined does not: a late reading leaves no gap. */
export type Point = number | null | undefined;

export interface Columns {
  min: Point[];
  mean: Point[];
  max: Point[];
}

export interface Drawn {
  at: number[];
  series: Record<Metric, Columns>;
  throttle: string[][];
  /** The seconds that each element of `at` covers. */
  widths: number[];
}

const LATE_TICKS = 3.5;
const GIB = 1024 ** 3; // memory is drawn in GiB, so that the ticks are round

export function drawnFrom(charts: Charts | undefined, ring: Ring, since: number, until: number, tick: number): Drawn {
  const width = charts && charts.at.length > 1 ? (charts.at[1] as number) - (charts.at[0] as number) : tick;
  const last = charts ? lastRead(charts) : -1;
  const at = charts ? charts.at.slice(0, last + 1) : [];
  const begin = (at.at(-1) ?? since - width) + width;
  const first = ring.at.findIndex((one) => one >= begin);
  const fresh = first < 0 ? [] : ring.at.slice(first).filter((one) => one <= until);
  const series = Object.fromEntries(METRICS.map((metric) => {
    const band = charts?.series[metric];
    const own = first < 0 ? [] : ring.values[metric].slice(first, first + fresh.length);
    const scale = metric === "memory_used_bytes" ? GIB : 1;
    const column = (name: "min" | "mean" | "max") => {
      const all = [...(band?.[name] ?? []).slice(0, last + 1), ...own].map((value) => (value === null ? null : value / scale));
      return joined([...at, ...fresh], all, Math.max(width * 1.5, LATE_TICKS * tick));
    };
    return [metric, { min: column("min"), mean: column("mean"), max: column("max") }];
  })) as Record<Metric, Columns>;
  return {
    at: [...at, ...fresh],
    series,
    throttle: [...(charts?.throttle ?? []).slice(0, last + 1), ...(first < 0 ? [] : ring.throttle.slice(first, first + fresh.length))],
    widths: [...at.map(() => width), ...fresh.map(() => tick)],
  };
}

function lastRead(charts: Charts): number {
  let last = -1;
  for (const band of Object.values(charts.series)) {
    for (let place = band.mean.length - 1; place > last; place -= 1) {
      if (band.mean[place] !== null) last = place;
    }
  }
  return last;
}

/** Gaps shorter than `longest` seconds are bridged. */
export function joined(at: number[], values: (number | null)[], longest: number): Point[] {
  const out: Point[] = values.slice();
  let known = -1;
  for (let place = 0; place < values.length; place += 1) {
    if (values[place] === null || values[place] === undefined) continue;
    const wide = (at[place] as number) - (at[known] ?? -Infinity);
    if (known >= 0 && place - known > 1 && wide <= longest) out.fill(undefined, known + 1, place);
    known = place;
  }
  return out;
}

export interface Segment {
  since: number;
  until: number;
}

/** When each reason applied; adjacent intervals are merged. */
export function bands(drawn: Drawn, hidden: (reason: string) => boolean): Map<string, Segment[]> {
  const found = new Map<string, Segment[]>();
  drawn.throttle.forEach((reasons, place) => {
    const since = drawn.at[place] as number;
    const width = drawn.widths[place] as number;
    for (const reason of reasons) {
      if (hidden(reason)) continue;
      const row = found.get(reason) ?? [];
      if (!row.length) found.set(reason, row);
      const last = row.at(-1);
      if (last && since - last.until < Math.max(5, width * 1.5)) last.until = since + width;
      else row.push({ since, until: since + width });
    }
  });
  return found;
}
