/** History and live readings in one set of columns. */
import type { CSSProperties } from "react";
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
  /** By reason the share of each span in which it applied; null where nothing was read. */
  throttle: Record<string, (number | null)[]>;
  /** How many readings each element of `at` has, and the seconds that it covers. */
  readings: number[];
  widths: number[];
}

const LATE_TICKS = 3.5;
export const GIB = 1024 ** 3; // memory is drawn in GiB, so that the ticks are round

/** What one unit of a chart is of the reading. */
export function scaleOf(metric: Metric): number {
  if (metric === "memory_used_bytes") return GIB;
  if (metric.startsWith("pcie_")) return 1e6;
  return metric.startsWith("nvlink_") ? 1e9 : 1;
}

/** Of the recorded columns up to the last reading, then of the live ones. */
interface Joint {
  at: number[];
  width: number;
  /** How many are recorded. */
  recorded: number;
  /** The first live one, and how many. */
  first: number;
  live: number;
}

function jointOf(recorded: number[], last: number, ring: Ring, since: number, until: number, tick: number): Joint {
  const width = recorded.length > 1 ? (recorded[1] as number) - (recorded[0] as number) : tick;
  const at = recorded.slice(0, last + 1);
  const begin = (at.at(-1) ?? since - width) + width;
  const found = ring.at.findIndex((one) => one >= begin);
  const fresh = found < 0 ? [] : ring.at.slice(found).filter((one) => one <= until);
  return { at: [...at, ...fresh], width, recorded: at.length, first: Math.max(0, found), live: fresh.length };
}

function columnsOf(joint: Joint, band: Band | undefined, ring: Ring, metric: Metric, tick: number): Columns {
  const own = ring.values[metric].slice(joint.first, joint.first + joint.live);
  const scale = scaleOf(metric);
  const column = (name: "min" | "mean" | "max") => {
    const known = (band?.[name] ?? []).slice(0, joint.recorded);
    while (known.length < joint.recorded) known.push(null);
    const all = [...known, ...own].map((value) => (value === null ? null : value / scale));
    return joined(joint.at, all, Math.max(joint.width * 1.5, LATE_TICKS * tick));
  };
  return { min: column("min"), mean: column("mean"), max: column("max") };
}

type Band = Charts["series"][string];

export function drawnFrom(charts: Charts | undefined, ring: Ring, since: number, until: number, tick: number): Drawn {
  const last = charts ? lastRead(Object.values(charts.series)) : -1;
  const joint = jointOf(charts?.at ?? [], last, ring, since, until, tick);
  const series = Object.fromEntries(
    METRICS.map((metric) => [metric, columnsOf(joint, charts?.series[metric], ring, metric, tick)]),
  ) as Record<Metric, Columns>;
  const fresh = ring.throttle.slice(joint.first, joint.first + joint.live);
  const readings = [...(charts?.readings ?? []).slice(0, joint.recorded), ...fresh.map((one) => (one === null ? 0 : 1))];
  const reasons = new Set([...Object.keys(charts?.throttle ?? {}), ...fresh.flatMap((one) => one ?? [])]);
  const throttle = Object.fromEntries([...reasons].map((reason) => {
    const known = charts?.throttle[reason]?.slice(0, joint.recorded)
      ?? readings.slice(0, joint.recorded).map((count) => (count ? 0 : null));
    return [reason, [...known, ...fresh.map((one) => (one === null ? null : Number(one.includes(reason))))]];
  }));
  const widths = joint.at.map((_, place) => (place < joint.recorded ? joint.width : tick));
  return { at: joint.at, series, throttle, readings, widths };
}

/** One reading of one device, of a page that shows all of them. */
export function columnFrom(
  at: number[], band: Band | undefined, ring: Ring, metric: Metric, since: number, until: number,
): { at: number[]; columns: Columns; width: number } {
  const joint = jointOf(at, band ? lastRead([band]) : -1, ring, since, until, 1);
  return { at: joint.at, columns: columnsOf(joint, band, ring, metric, 1), width: joint.width };
}

/** When something was first read, of what is recorded, else of what the page has received since an instant. */
export function firstRead(at: number[], recorded: Band[], ring: Ring, since: number): number {
  return at.find((_, place) => recorded.some((band) => typeof band.mean[place] === "number")) ?? ring.at.find((one) => one >= since) ?? Infinity;
}

function lastRead(bands: Band[]): number {
  let last = -1;
  for (const band of bands) {
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
  /** How much of it, from 0 to 1. */
  share: number;
}

/** When each reason applied and how much of the time; equal neighbours are merged. */
export function bands(drawn: Drawn, hidden: (reason: string) => boolean): Map<string, Segment[]> {
  const found = new Map<string, Segment[]>();
  for (const [reason, parts] of Object.entries(drawn.throttle)) {
    if (hidden(reason)) continue;
    const row: Segment[] = [];
    parts.forEach((share, place) => {
      if (!share) return;
      const since = drawn.at[place] as number;
      const width = drawn.widths[place] as number;
      const last = row.at(-1);
      const near = last && since - last.until < Math.max(5, width * 0.5);
      if (last && near && Math.abs(last.share - share) < 0.005) last.until = since + width;
      else row.push({ since, until: since + width, share });
    });
    if (row.length) found.set(reason, row);
  }
  return found;
}

/** The share of all readings in which a reason applied; null if nothing was read. */
export function shareOf(drawn: Drawn, reason: string): number | null {
  const all = drawn.readings.reduce((sum, one) => sum + one, 0);
  const applied = (drawn.throttle[reason] ?? []).reduce<number>(
    (sum, share, place) => sum + (share ?? 0) * (drawn.readings[place] as number), 0,
  );
  return all ? applied / all : null;
}

/** Mean, least and most of a whole range; a span with more readings counts for more. */
export interface Summary {
  mean: number;
  min: number;
  max: number;
}

export function summaryOf(columns: Columns, weights: number[] | null = null): Summary | null {
  let [sum, weight, low, high] = [0, 0, Infinity, -Infinity];
  columns.mean.forEach((mean, place) => {
    if (typeof mean !== "number") return;
    const counts = Math.max(1, weights?.[place] ?? 1);
    sum += mean * counts;
    weight += counts;
    low = Math.min(low, columns.min[place] ?? mean);
    high = Math.max(high, columns.max[place] ?? mean);
  });
  return weight ? { mean: sum / weight, min: low, max: high } : null;
}

export function pointAt(columns: Columns, place: number | null): Summary | null {
  const mean = place === null ? null : columns.mean[place];
  if (place === null || typeof mean !== "number") return null;
  return { mean, min: columns.min[place] ?? mean, max: columns.max[place] ?? mean };
}

/** What a legend shows of a line: its colour, and its dashes where it has some. */
export function swatchOf({ colour, dash }: { colour: string; dash?: number[] | undefined }): CSSProperties {
  if (!dash) return { background: `var(${colour})` };
  const [drawn = 0, gap = 0] = dash;
  return { width: "1.6em", background: `repeating-linear-gradient(90deg, var(${colour}) 0 ${drawn}px, transparent ${drawn}px ${drawn + gap}px)` };
}
