/** A run's columns as charts draw them, and what live news add to them. */
import type { RunDetails, RunMark, RunUpdate } from "../../api/types";
import { type Columns, GIB } from "../../charts/data";
import { energy } from "../../lib/format";
import type { Line } from "../../charts/Chart";
import type { ChartMark } from "../../charts/marks";
import { extended, type Stretch } from "./curves";

export const READINGS = ["utilization_percent", "memory_used_bytes", "temperature_celsius", "power_watts"] as const;
export type Reading = (typeof READINGS)[number];
export const COLOURS = ["--run-1", "--run-2", "--run-3", "--run-4", "--run-5", "--run-6", "--run-7", "--run-8"];
/** Of a run on one GPU, the colour of that value everywhere. */
const OF_VALUES: Record<Reading, string> = { utilization_percent: "--chart-util", memory_used_bytes: "--chart-memory", temperature_celsius: "--chart-heat", power_watts: "--chart-power" };
const colourAt = (place: number): string => COLOURS[place % COLOURS.length] as string;

type Series = RunDetails["series"];

function columns(values: (number | null)[], reading: Reading): Columns {
  const scaled = reading === "memory_used_bytes" ? values.map((value) => (value === null ? null : value / GIB)) : values;
  return { min: scaled, mean: scaled, max: scaled };
}

/** The same with an empty moment in each gap: a pause of more than four times the steps around it. */
export function withGaps(series: Series): Series {
  const { at } = series;
  const step = (place: number) => (at[place + 1] as number) - (at[place] as number);
  const gaps = new Set([...at.keys()].filter((place) => step(place) > 4 * Math.max(step(place - 1), step(place + 1))));
  if (!gaps.size) return series;
  const cut = <T,>(values: T[], between: (place: number) => T) => values.flatMap((value, place) => (gaps.has(place) ? [value, between(place)] : [value]));
  const devices = Object.entries(series.devices).map(([uuid, named]) => [uuid, Object.fromEntries(
    Object.entries(named).map(([name, values]) => [name, cut(values, () => null)]),
  )]);
  return { at: cut(at, (place) => (at[place] as number) + step(place - 1)), devices: Object.fromEntries(devices) };
}

/** One line for each device; of a reading that no device has, none. */
export function linesOf(run: RunDetails, reading: Reading): Line[] {
  return run.devices.flatMap((device, place) => {
    const values = run.series.devices[device.uuid]?.[reading];
    if (!values?.some((value) => value !== null)) return [];
    return [{ label: `GPU ${device.label}`, colour: run.devices.length > 1 ? colourAt(place) : OF_VALUES[reading], columns: columns(values, reading), now: null }];
  });
}

/** The mean over a run's devices, where all that were ever read have a value or some do. */
export function meanOf(series: Series, reading: Reading): (number | null)[] {
  const all = Object.values(series.devices).flatMap((named) => (named[reading] ? [named[reading]] : []));
  return series.at.map((_, place) => {
    const known = all.flatMap((values) => (typeof values[place] === "number" ? [values[place]] : []));
    return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
  });
}

/** Of a run that goes on, from what its devices have so far. */
export function utilizationOf(run: RunDetails): number | null {
  const means = run.uses.flatMap((use) => use.readings["utilization_percent"]?.mean ?? []);
  return run.mean_utilization_percent ?? (means.length ? means.reduce((a, b) => a + b, 0) / means.length : null);
}

export function peakOf(run: RunDetails): number | null {
  const peaks = run.uses.flatMap((use) => use.peak_memory_bytes ?? []);
  return run.peak_memory_bytes ?? (peaks.length ? Math.max(...peaks) : null);
}

export function energyOf(run: RunDetails): string {
  const parts = run.uses.flatMap((use) => use.energy_joules ?? []);
  const sum = parts.length && parts.length === run.uses.length ? parts.reduce((a, b) => a + b, 0) : null;
  const isEstimate = run.energy_source === "power" || run.uses.some((use) => use.energy_source === "power");
  return energy(run.energy_joules ?? sum, isEstimate ? "power" : null);
}

/** A line for each run: the mean of its GPUs. */
export function meansOf(runs: RunDetails[], reading: Reading, label: (run: RunDetails) => string): Stretch[] {
  return runs.map((run, place) => ({ ...lookAt(place, label(run)), at: run.series.at, columns: columns(meanOf(run.series, reading), reading) }));
}

/** What tells the lines of several runs from each other: colours, and dashes where there are more runs than colours. */
export function lookAt(place: number, label: string): Pick<Stretch, "label" | "colour" | "dash"> {
  const round = Math.floor(place / COLOURS.length);
  return { label, colour: colourAt(place), ...(round && { dash: [9 - 3 * round, 3] }) };
}

export function widthsOf(at: number[]): number[] {
  return at.map((moment, place) => (at[place + 1] ?? moment + (moment - (at[place - 1] ?? moment - 1))) - moment);
}

export function chartMarks(marks: RunMark[], begin: number): ChartMark[] {
  return marks.map((mark) => ({ at: begin + mark.at, title: mark.title, bad: mark.failed || mark.level === "critical" }));
}

/** The run with its news; null if they do not continue it, and it has to be asked for again. */
export function withNews(run: RunDetails, news: RunUpdate): RunDetails | null {
  if (news.since_bytes > run.read.bytes || news.state !== run.state) return null;
  const last = run.series.at.at(-1) ?? -1;
  const fresh = news.series.at.flatMap((moment, place) => (moment > last ? [place] : []));
  const devices = { ...run.series.devices };
  for (const [uuid, named] of Object.entries(news.series.devices)) {
    const before = devices[uuid] ?? {};
    devices[uuid] = Object.fromEntries(READINGS.map((reading) => [reading, [
      ...(before[reading] ?? run.series.at.map(() => null)), ...fresh.map((place) => named[reading]?.[place] ?? null),
    ]]));
  }
  const at = [...run.series.at, ...fresh.map((place) => news.series.at[place] as number)];
  return {
    ...run, last_values: { ...run.last_values, ...lastOf(news.curves) }, curves: withCurves(run.curves, news.curves), read: news.read, uses: news.uses, samples: news.samples, duration_seconds: news.duration_seconds, progress: news.progress,
    series: { at, devices },
  };
}

const lastOf = (curves: RunDetails["curves"]): Record<string, number> => Object.fromEntries(
  Object.entries(curves).flatMap(([name, curve]) => curve.last.filter((value) => value !== null).slice(-1).map((value) => [name, value])),
);

function withCurves(known: RunDetails["curves"], news: RunDetails["curves"]): RunDetails["curves"] {
  return { ...known, ...Object.fromEntries(Object.entries(news).map(([name, curve]) => [name, extended(known[name], curve)])) };
}

const SHORTEST = 2;

/** Part of a whole: within it, and not too short. */
export function within(since: number, until: number, last: number): [number, number] | null {
  const seconds = Math.max(Math.min(SHORTEST, last), until - since);
  if (seconds >= last) return null;
  const first = Math.min(Math.max(0, (since + until - seconds) / 2), last - seconds);
  return [first, first + seconds];
}
