/** What a run can be listed, sorted, filtered and drawn by: its own facts, its parameters and the values it logged. */
import type { RunEntry } from "../../api/types";
import { DASH, energy, gib, hourOf, measured, percent } from "../../lib/format";
import { stateOf } from "./words";

export interface RunField {
  /** In the address: "util", "param:lr", "value:loss". */
  id: string;
  title: string;
  of: (run: RunEntry) => number | string | null;
  text: (value: number | string, run?: RunEntry) => string;
  /** In a column, where the points stand below each other. */
  cell?: (value: number) => string;
  number: boolean;
  /** Logged by no more than half of the runs that logged something. */
  rare?: boolean;
  /** Of which its axis has round numbers: seconds of hours, joules of kWh. */
  bases?: number[];
}

const GIB = 1024 ** 3;
const asText = (value: number | string): string => String(value);
const digits = (value: number): string => String(Number(value.toPrecision(4)));
/** The digits that a column's values need, so that their points stand below each other; of very different sizes each its own. */
function alike(values: number[]): (value: number) => string {
  const sizes = values.filter(Boolean).map(Math.abs);
  const places = Math.max(0, ...values.map((value) => digits(value).split(".")[1]?.length ?? 0));
  return Math.max(...sizes) / Math.min(...sizes) < 100 && places <= 4 ? (value) => value.toFixed(places) : digits;
}
const word = (id: string, of: (run: RunEntry) => string | null, title = id): RunField => ({ id, title, of, text: asText, number: false });
const amount = (id: string, of: (run: RunEntry) => number | null, text: (value: number, run?: RunEntry) => string, title = id, bases = [1]): RunField => ({ id, title, of, text: (value, run) => text(Number(value), run), number: true, bases });
const TIMES = [1, 60, 3600, 86_400];

const OWN: RunField[] = [
  word("state", (run) => stateOf(run.state).word),
  amount("began", (run) => run.began, (value) => hourOf(value), "began", TIMES),
  amount("duration", (run) => run.duration_seconds, measured, "duration", TIMES),
  amount("util", (run) => run.mean_utilization_percent, percent),
  amount("peak", (run) => (run.peak_memory_bytes === null ? null : run.peak_memory_bytes / GIB), (value) => `${gib(value * GIB)}\u00a0GiB`, "peak memory"),
  amount("energy", (run) => run.energy_joules, (value, run) => energy(value, run?.energy_source ?? null), "energy", [1, 3600, 3_600_000]),
  amount("idle", (run) => (run.idle_share === null ? null : 100 * run.idle_share), percent),
  amount("waited", (run) => run.waited_seconds, measured, "waited", TIMES),
  word("GPUs", (run) => run.gpus),
  word("user", (run) => run.user),
  word("node", (run) => run.node),
  word("group", (run) => run.group),
  word("tags", (run) => run.tags.join(", ") || null),
  word("command", (run) => run.command),
];
const OF_A_GROUP = new Set(["state", "duration", "util", "peak", "energy"]);
const FIRST = new Set(["state", "GPUs", "user", "node", "began", "duration", "util", "peak", "energy", "group", "tags", "command"]);

/** The fields that any of these runs has. */
export function fieldsOf(runs: RunEntry[]): RunField[] {
  const own = OWN.filter((field) => runs.some((run) => field.of(run) !== null) && (field.id !== "node" || runs.some((run) => run.node !== runs[0]?.node)));
  const names = (of: (run: RunEntry) => object | null) => [...new Set(runs.flatMap((run) => Object.keys(of(run) ?? {})))].sort();
  const logging = runs.filter((run) => Object.keys(run.last_values).length > 0);
  const values = names((run) => run.last_values).map((name) => ({ rare: 2 * logging.filter((run) => name in run.last_values).length <= logging.length, ...amount(`value:${name}`, (run) => run.last_values[name] ?? null, digits, name), cell: alike(runs.flatMap((run) => run.last_values[name] ?? [])) }));
  const params = names((run) => run.params).map((name): RunField => {
    const of = (run: RunEntry) => plainly(run.params?.[name]);
    const isNumber = runs.every((run) => typeof (of(run) ?? 0) === "number");
    return { id: `param:${name}`, title: values.some((one) => one.title === name) ? `${name} (parameter)` : name, of, text: (value) => (typeof value === "number" ? digits(value) : value), number: isNumber };
  });
  const split = own.findIndex((field) => field.id === "util") + 1; // what a run was for comes before what it cost
  return [...own.slice(0, split), ...values, ...own.slice(split), ...params];
}

function plainly(value: string | number | boolean | null | undefined): number | string | null {
  if (value === null || value === undefined) return null;
  const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) ? number : String(value);
}

/** Parameters that tell jobs apart, not what they do. */
const OF_A_JOB = new Set(["param:job", "param:attempt"]);
const MOST_AXES = 8;

/** The parameters in which runs differ: what a sweep is about. */
export function variedParams(runs: RunEntry[], fields: RunField[]): RunField[] {
  return fields.filter((field) => field.id.startsWith("param:") && !OF_A_JOB.has(field.id) && new Set(runs.map(field.of).filter((value) => value !== null)).size > 1);
}

/** What a group is drawn by, from left to right: its parameters, then what came of them. */
export function axesOf(runs: RunEntry[], fields: RunField[]): RunField[] {
  const known = fields.filter((field) => field.number && runs.some((run) => field.of(run) !== null));
  const logged = known.filter((field) => field.id.startsWith("value:")).slice(0, 4);
  const cost = known.filter((field) => ["duration", "energy"].includes(field.id));
  return [...variedParams(runs, fields), ...logged, ...cost].slice(0, MOST_AXES);
}

export interface Axis {
  field: RunField;
  /** Where a value stands, from 0 to 1; null if it is not known. */
  at: (run: RunEntry) => number | null;
  low: string;
  high: string;
}

/** An axis of numbers is a scale; one of words has a place for each, in their order. */
export function axisOf(runs: RunEntry[], field: RunField): Axis {
  const values = [...new Set(runs.flatMap((run) => field.of(run) ?? []))];
  if (field.number && values.every((value) => typeof value === "number")) {
    const [low, high] = [Math.min(...(values as number[])), Math.max(...(values as number[]))];
    const log = low > 0 && high / low >= 100;
    const place = (value: number) => (high === low ? 0.5 : log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
    const at = (run: RunEntry) => (typeof field.of(run) === "number" ? place(field.of(run) as number) : null);
    return { field, at, low: field.text(low), high: field.text(high) };
  }
  const words = values.map(String).sort();
  const at = (run: RunEntry) => (field.of(run) === null ? null : words.length < 2 ? 0.5 : words.indexOf(String(field.of(run))) / (words.length - 1));
  return { field, at, low: words[0] ?? "", high: words.at(-1) ?? "" };
}

/** Those of the address; else the usual ones, and the first values that most runs logged; of a group its parameters first. */
export function chosenFields(text: string | null, fields: RunField[], varied: RunField[] = []): RunField[] {
  if (text !== null) return text.split(",").flatMap((id) => fields.find((field) => field.id === id) ?? []);
  if (varied.length) return [...varied, ...fields.filter((field) => field.id.startsWith("value:")).slice(0, 4), ...fields.filter((field) => OF_A_GROUP.has(field.id))];
  const logged = fields.filter((field) => field.id.startsWith("value:") && !field.rare).slice(0, 2);
  return fields.filter((field) => FIRST.has(field.id) || logged.includes(field));
}

export const textOf = (field: RunField, run: RunEntry): string => {
  const value = field.of(run);
  if (value === null) return DASH;
  return field.cell && typeof value === "number" ? field.cell(value) : field.text(value, run);
};

interface Condition {
  field: RunField;
  sign: string;
  value: string;
}

const CONDITION = /^([^<>=!~]+?)\s*(<=|>=|!=|<|>|=|~)\s*(.+)$/;

/** "loss<2 lr=3e-4 user=ada": all must hold. What is not understood is returned in words. */
export function conditionsOf(text: string, fields: RunField[]): { conditions: Condition[]; wrong: string | null } {
  const conditions: Condition[] = [];
  for (const part of text.trim().split(/\s+(?=\S+?(?:[<>=!~]))/).filter(Boolean)) {
    const found = CONDITION.exec(part.trim());
    const name = found?.[1]?.toLowerCase() ?? "";
    const field = fields.find((one) => one.title.toLowerCase() === name || one.id.toLowerCase() === name || one.id.toLowerCase().endsWith(`:${name}`));
    if (!found) return { conditions, wrong: `${part}: write a column, a sign and a value, such as util<50` };
    if (!field) return { conditions, wrong: `no column is called ${found[1]}` };
    conditions.push({ field, sign: found[2] as string, value: found[3] as string });
  }
  return { conditions, wrong: null };
}

/** An unknown value meets no condition: nobody knows whether it would. */
export function meets(run: RunEntry, { field, sign, value }: Condition): boolean {
  const own = field.of(run);
  if (own === null) return false;
  const [left, right] = [Number(own), Number(value)];
  const numeric = typeof own === "number" && !Number.isNaN(right);
  const [a, b] = [String(own).toLowerCase(), value.toLowerCase()];
  switch (sign) {
    case "~": return a.includes(b);
    case "=": return numeric ? left === right : a === b;
    case "!=": return numeric ? left !== right : a !== b;
    case "<": return numeric && left < right;
    case ">": return numeric && left > right;
    case "<=": return numeric && left <= right;
    default: return numeric && left >= right;
  }
}

interface Scale {
  /** Where a value stands, from 0 to 1. */
  at: (value: number) => number;
  ticks: number[];
  log: boolean;
}

/** Round ticks around all values; logarithmic where they are positive and span more than two powers of ten. */
export function scaleOf(given: number[], bases: number[] = [1]): Scale {
  const spread = Math.max(...given) - Math.min(...given);
  const base = bases.filter((one) => one <= spread / 2).at(-1) ?? bases[0] ?? 1;
  const { at, ticks, log } = plainScale(given.map((value) => value / base));
  return { at: (value) => at(value / base), ticks: ticks.map((tick) => tick * base), log };
}

function plainScale(values: number[]): Scale {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  if (low > 0 && high / low >= 100) {
    const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
    const every = Math.ceil((last - first) / 6);
    const ticks = Array.from({ length: Math.floor((last - first) / every) + 1 }, (_, place) => 10 ** (first + place * every));
    return { at: (value) => (Math.log10(value) - first) / (last - first), ticks, log: true };
  }
  const raw = (high - low || Math.abs(high) || 1) / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5, 10].find((one) => one * power >= raw) ?? 10) * power;
  const [first, last] = [Math.floor(low / step) * step, Math.ceil(high / step) * step || step];
  const end = last > first ? last : first + step;
  const ticks = Array.from({ length: Math.round((end - first) / step) + 1 }, (_, place) => Number((first + place * step).toPrecision(12)));
  return { at: (value) => (value - first) / (end - first), ticks, log: false };
}

export interface Dot {
  run: RunEntry;
  x: number;
  y: number;
}

/** The runs that have both numbers, from left to right. */
export function dotsOf(runs: RunEntry[], x: RunField, y: RunField): Dot[] {
  const found = runs.flatMap((run) => {
    const [a, b] = [x.of(run), y.of(run)];
    return typeof a === "number" && typeof b === "number" ? [{ run, x: a, y: b }] : [];
  });
  return found.sort((a, b) => a.x - b.x || a.y - b.y);
}

/** The points of a sparkline in a box of 100 by 20: a line for each stretch without a gap. */
export function coursePaths(values: (number | null)[]): string[] {
  const step = values.length > 1 ? 100 / (values.length - 1) : 0;
  const out: string[] = [];
  let line: string[] = [];
  const close = () => {
    if (line.length === 1) line.push(`${line[0]?.split(",")[0]},${line[0]?.split(",")[1]}`);
    if (line.length) out.push(line.join(" "));
    line = [];
  };
  values.forEach((value, place) => (value === null ? close() : line.push(`${(place * step).toFixed(1)},${(19 - 18 * Math.min(1, Math.max(0, value / 100))).toFixed(1)}`)));
  close();
  return out;
}
