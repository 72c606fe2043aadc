/** Curves of what runs log, as charts draw them: over time, or over the steps of the program. */
import type { RunCurve, RunDetails } from "../../api/types";
import type { Line } from "../../charts/Chart";
import type { Columns, Point } from "../../charts/data";
import type { ChartMark } from "../../charts/marks";
import type { ChartKind } from "../../charts/metrics";
import { NB } from "../../lib/format";

/** What the axis counts: seconds since the start, the time of day, or steps. */
export type Axis = "start" | "clock" | "step";
export const MOST_CURVES = 24;
const OTHER_STEPS = 8; // so many times fewer are not the steps of the run
const GREATEST = 1e300; // a scale ends above it
const UNITS: [string, string][] = [
  ["_per_second", "/s"], ["_percent", "%"], ["_seconds", "s"], ["_bytes", "B"], ["_watts", "W"], ["_celsius", "°C"], ["_joules", "J"], ["_mhz", "MHz"],
];
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });

/** "0.2556", "402.2K", "1.2e-7": a program's own number. */
export function valueText(value: number): string {
  const small = value !== 0 && Math.abs(value) < 1e-4;
  return small || Math.abs(value) >= 1e15 ? value.toExponential(2) : SHORT.format(value);
}

/** Its unit is the end of its name. */
export function kindOf(name: string): ChartKind {
  const unit = UNITS.find(([end]) => name.endsWith(end))?.[1] ?? "";
  return { title: name, lines: [], unit, digits: 0, top: null, limit: () => null, own: (value) => valueText(value) + (unit && `${NB}${unit}`) };
}

/** The names that any of these runs logged, as many as are drawn. */
export const namesOf = (runs: RunDetails[]): string[] => [...new Set(runs.flatMap((run) => Object.keys(run.curves)))];

/** Points of one line; what is drawn of several runs has the times of all. */
export interface Stretch {
  label: string;
  colour: string;
  at: number[];
  columns: Columns;
  dash?: number[];
}

/** Each column whole: of single values, all are the same. */
export function whole(curve: RunCurve): RunCurve {
  const filled = (values: (number | null)[]) => (values.length ? values : curve.last);
  const { at } = curve;
  return {
    ...curve, low: filled(curve.low), mean: filled(curve.mean), high: filled(curve.high),
    steps: curve.steps.length ? curve.steps : at.map(() => null), gaps: curve.gaps.length ? curve.gaps : at.map(() => 0),
  };
}

/** Lines of a curve: one over time; over steps one more each time that the step went back. */
export function stretchesOf(given: RunCurve, axis: Axis, begin: number, look: Omit<Stretch, "at" | "columns">): Stretch[] {
  const curve = whole(given);
  const starts = new Set(axis === "step" ? curve.restarts : []);
  const parts: number[][] = [[]];
  curve.at.forEach((_, place) => {
    if (starts.has(place)) parts.push([]);
    if (axis !== "step" || curve.steps[place] !== null) parts.at(-1)?.push(place);
  });
  const column = (values: (number | null)[], places: number[]): Point[] => places.map((place) => {
    const value = values[place] ?? null;
    return value === null ? null : Math.max(-GREATEST, Math.min(GREATEST, value));
  });
  return parts.filter((places) => places.length).map((places) => ({
    ...look,
    at: places.map((place) => (axis === "step" ? (curve.steps[place] as number) : begin + (curve.at[place] as number))),
    columns: { min: column(curve.low, places), mean: column(curve.mean, places), max: column(curve.high, places) },
  }));
}

/** Several lines on one axis: every place that any of them has, and gaps that do not end a line. */
export function onOneAxis(all: Stretch[]): { at: number[]; lines: Line[] } {
  const at = [...new Set(all.flatMap((one) => one.at))].sort((a, b) => a - b);
  const lines = all.map(({ at: own, columns, ...look }) => {
    const places = new Map(own.map((moment, place) => [moment, place]));
    const spread = (values: Point[]): Point[] => {
      let last: Point;
      return at.map((moment) => {
        const place = places.get(moment);
        if (place !== undefined) last = values[place] ?? null;
        // undefined bridges a place that only another line has; null ends the line until its next value
        return place !== undefined ? last : last === null ? null : undefined;
      });
    };
    return { ...look, columns: { min: spread(columns.min), mean: spread(columns.mean), max: spread(columns.max) }, now: null };
  });
  return { at, lines };
}

/** The curve whose steps tell those of the run: the one with the most. */
export function stepper(run: RunDetails): RunCurve | null {
  const known = Object.values(run.curves).filter((one) => one.steps.length);
  return known.sort((a, b) => b.steps.length - a.steps.length)[0] ?? null;
}

/** The step at a time, between two that were logged; null before the first, after the last, and where the steps went back. */
export function stepAt(curve: RunCurve, at: number): number | null {
  const next = curve.at.findIndex((one) => one >= at);
  const [step, before] = [curve.steps[next] ?? null, curve.steps[next - 1] ?? null];
  if (next < 0 || step === null) return null;
  if (curve.at[next] === at) return step;
  if (before === null || curve.restarts.includes(next)) return null;
  const [from, to] = [curve.at[next - 1] as number, curve.at[next] as number];
  return before + ((at - from) / (to - from)) * (step - before);
}

/** A GPU's line on the axis of steps: a line for each time that they began again. */
export function onSteps({ label, colour, dash, columns }: Omit<Stretch, "at">, at: number[], curve: RunCurve): Stretch[] {
  const parts: Stretch[] = [];
  let last = Infinity;
  at.forEach((moment, place) => {
    const step = stepAt(curve, moment);
    if (step === null) return;
    if (step < last) parts.push({ label, colour, ...(dash && { dash }), at: [], columns: { min: [], mean: [], max: [] } });
    const part = parts.at(-1) as Stretch;
    if (step === part.at.at(-1)) return;
    last = step;
    part.at.push(step);
    (["min", "mean", "max"] as const).forEach((name) => part.columns[name].push(columns[name][place]));
  });
  return parts;
}

/** A curve on an axis. One with steps of another kind, such as epochs, stands at the steps that were logged around its times. */
export function curveLines(run: RunDetails, name: string, axis: Axis, begin: number, look: Omit<Stretch, "at" | "columns">): Stretch[] {
  const [curve, main] = [run.curves[name], axis === "step" ? stepper(run) : null];
  if (!curve) return [];
  const most = (one: RunCurve) => Math.max(...one.steps.map((step) => step ?? 0));
  if (!main || (curve.steps.length && most(curve) * OTHER_STEPS >= most(main))) return stretchesOf(curve, axis, begin, look);
  return stretchesOf(curve, "start", 0, look).flatMap((line) => onSteps(line, line.at, main));
}

/** What runs are called beside each other: by the parameters in which they differ, and their ids where these are the same. */
export function labelsOf(runs: RunDetails[]): Map<string, string> {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.params ?? {})))].filter((name) => name !== "job");
  const varied = names.filter((name) => new Set(runs.map((run) => run.params?.[name])).size > 1).slice(0, 3);
  const words = runs.map((run) => [run.name, ...varied.map((name) => `${name}=${run.params?.[name] ?? "–"}`)].join(" "));
  return new Map(runs.map((run, place) => [run.id, varied.length && words.indexOf(words[place]!) === words.lastIndexOf(words[place]!) ? words[place]! : `${run.name} ${run.id}`]));
}

/** Where the steps of any value went back, over time. */
export function restartMarks(run: RunDetails, begin: number): ChartMark[] {
  return Object.entries(run.curves).flatMap(([name, curve]) => curve.restarts.map((place) => ({ at: begin + (curve.at[place] as number), title: `the steps of ${name} went back`, bad: false })));
}

/** "0.2556 · lowest 0.2033 at 281 · highest 2.72 at 8 · 2 values are no numbers". */
export function curveText(curve: RunCurve): string {
  const last = curve.last.filter((value) => value !== null).at(-1);
  const gaps = curve.gaps.reduce((sum, one) => sum + one, 0);
  const parts = [last === undefined ? "no number" : valueText(last), extremeText("lowest", curve.lowest), extremeText("highest", curve.highest)];
  if (gaps) parts.push(`${gaps} ${gaps === 1 ? "value is no number" : "values are no numbers"}`);
  if (curve.restarts.length) parts.push(`steps went back ${curve.restarts.length}${NB}×`);
  return parts.filter(Boolean).join(" · ");
}

export function extremeText(name: string, found: RunCurve["lowest"] | undefined): string {
  if (!found) return "";
  return `${name} ${valueText(found.value)}${found.step === null ? "" : ` at ${found.step}`}`.trim();
}

/** A curve with what was logged since; buckets that are known are not added twice. */
export function extended(before: RunCurve | undefined, more: RunCurve): RunCurve {
  if (!before) return more;
  const [known, next] = [whole(before), whole(more)];
  const first = next.at.findIndex((at) => at > (known.at.at(-1) ?? -1));
  if (first < 0) return before;
  const joined = <T,>(pick: (one: RunCurve) => T[]): T[] => [...pick(known), ...pick(next).slice(first)];
  const [last, step] = [known.steps.filter((one) => one !== null).at(-1), next.steps[first]];
  const back = typeof last === "number" && typeof step === "number" && step < last;
  const restarts = next.restarts.filter((place) => place >= first).map((place) => place - first + known.at.length);
  if (back && !restarts.includes(known.at.length)) restarts.unshift(known.at.length);
  const least = (a: RunCurve["lowest"], b: RunCurve["lowest"], sign: number) => (a && (!b || sign * a.value <= sign * b.value) ? a : b);
  return {
    at: joined((one) => one.at), last: joined((one) => one.last), low: joined((one) => one.low), mean: joined((one) => one.mean),
    high: joined((one) => one.high), steps: joined((one) => one.steps), gaps: joined((one) => one.gaps), restarts: [...known.restarts, ...restarts],
    lowest: least(known.lowest, next.lowest, 1), highest: least(known.highest, next.highest, -1),
  };
}
