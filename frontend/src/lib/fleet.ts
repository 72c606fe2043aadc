/** The nodes of a hub: what they sum up to, which are shown, and in which order. */
import type { NodeRow } from "../api/types";
import type { Colour } from "./lamps";
import type { Order } from "../parts/Table";

export const { compare: byName } = new Intl.Collator("en", { numeric: true });

/** What a number at the top is about; as a filter it shows the nodes behind it. */
export const SHOWS = ["sick", "free", "idle", "silent"] as const;
export type Show = (typeof SHOWS)[number];

export const isHeard = (row: NodeRow): boolean => row.state === "healthy" || row.state === "sick";

/** GPUs that a request would get: none of a node that is drained or silent. */
export function freeOf(row: NodeRow): number {
  return isHeard(row) && !row.drained ? row.free.reduce((sum, one) => sum + one.labels.length, 0) : 0;
}

const HAS: Record<Show, (row: NodeRow) => number> = {
  sick: (row) => Number(row.state === "sick"),
  free: freeOf,
  idle: (row) => row.idle,
  silent: (row) => Number(row.state === "silent"),
};

interface Sum {
  nodes: number;
  /** GPUs; nodes for those that are sick or silent. */
  number: number;
}

export interface Totals {
  nodes: number;
  gpus: number;
  /** Over the GPUs of nodes that report; null if none is known. */
  utilization: number | null;
  shows: Record<Show, Sum>;
}

export function totals(rows: NodeRow[]): Totals {
  const shows = Object.fromEntries(SHOWS.map((one) => [one, { nodes: 0, number: 0 }])) as Record<Show, Sum>;
  let [gpus, busy, read] = [0, 0, 0];
  for (const row of rows) {
    gpus += row.gpus;
    if (row.utilization_percent !== null) {
      busy += row.utilization_percent * row.gpus;
      read += row.gpus;
    }
    for (const one of SHOWS) {
      const number = HAS[one](row);
      shows[one].number += number;
      shows[one].nodes += Number(number > 0);
    }
  }
  return { nodes: rows.length, gpus, utilization: read ? busy / read : null, shows };
}

/** One GPU of a node, from `3 held 87 62`: what it is, and how busy and how full in percent; null where that is not known. */
interface Gpu {
  label: string;
  state: string;
  load: number | null;
  memory: number | null;
  /** By its last check. */
  slow: boolean;
}

export function gpusOf(row: NodeRow): Gpu[] {
  return (row.gpu_states ?? []).map((text) => {
    const [label = "", state = "unknown", load, memory] = text.split(" ");
    return { label, state, load: numberOf(load), memory: numberOf(memory), slow: row.slow?.includes(label) ?? false };
  });
}
const numberOf = (text: string | undefined): number | null => (text === undefined || text === "-" ? null : Number(text));

const STATE_WORDS: Record<string, string> = { used: "used without a lease", idle: "held but idle", withheld: "not available", troubled: "needs attention", broken: "needs help now", unknown: "not known" };
/** "GPU 3: held, 87 % busy, memory 62 %". */
export function gpuWords({ label, state, load, memory, slow }: Gpu): string {
  return [`GPU ${label}: ${STATE_WORDS[state] ?? state}`, load !== null && `${load}\u00a0% busy`, memory !== null && `memory ${memory}\u00a0%`, slow && "slow by its last check"].filter(Boolean).join(", ");
}

/** What the fleet says first: its worst nodes by name, who is silent, and what is free. */
export function headline(rows: NodeRow[], sum: Totals, most = 2): { text: string; colour: Colour } {
  const troubled = [...rows].filter((row) => row.state === "sick" || row.state === "silent").sort((a, b) => rankOf(b) - rankOf(a) || needy(a, b));
  const said = troubled.slice(0, most).map((row) => (row.state === "silent" ? `${row.name} has been ${(row.reason ?? "silent").replace(/^silent (?=\d)/, "silent for ")}` : `${row.name}: ${row.reason ?? "needs someone"}`));
  if (troubled.length > most) said.push(troubled.length === most + 1 ? "1 more needs attention" : `${troubled.length - most} more need attention`);
  const unheard = rows.filter((row) => row.state === "new").length;
  if (unheard) said.push(`${unheard} ${unheard === 1 ? "node has" : "nodes have"} not reported yet`);
  const { number, nodes } = sum.shows.free;
  said.push(number ? `${number} ${number === 1 ? "GPU" : "GPUs"} free on ${nodes} ${nodes === 1 ? "node" : "nodes"}` : "no GPU is free");
  const worst = troubled[0];
  return { text: said.join("\u00a0· "), colour: worst === undefined ? (unheard === rows.length ? "grey" : "green") : worst.state === "silent" ? "amber" : colourOf(worst) };
}
const rankOf = (row: NodeRow): number => (colourOf(row) === "red" ? 2 : row.state === "sick" ? 1 : 0);

/** How nodes are grouped on a map: by what a column says, each group in order. */
export const GROUPS = ["model", "state", "label", "version"] as const;
export type GroupBy = (typeof GROUPS)[number];
const GROUP_OF: Record<GroupBy, (row: NodeRow) => string> = {
  model: (row) => Object.keys(row.models).sort(byName).join(", ") || "no GPU",
  state: (row) => row.state,
  label: (row) => [...row.labels ?? [], row.drained && "drained", row.simulated && "simulated"].filter(Boolean).join(", ") || "no label",
  version: (row) => (row.version ? `andon ${row.version}` : "version not known"),
};
export function grouped(rows: NodeRow[], by: GroupBy | null): [title: string, rows: NodeRow[]][] {
  if (by === null) return [["", rows]];
  const found = new Map<string, NodeRow[]>();
  for (const row of rows) found.set(GROUP_OF[by](row), [...(found.get(GROUP_OF[by](row)) ?? []), row]);
  return [...found].sort(([a], [b]) => (by === "state" ? URGENCY[a as NodeRow["state"]] - URGENCY[b as NodeRow["state"]] : byName(a, b)));
}

/** Nodes that take work and have so many free GPUs of one model with this memory, as `andon free` chooses them. */
export function fitting(rows: NodeRow[], least: number, gpus: number): { node: string; model: string; labels: string[]; bytes: number }[] {
  const found = rows.filter((row) => freeOf(row) > 0).flatMap((row) => row.free.flatMap(({ model, labels, free_mib }) => {
    const fit = labels.flatMap((label, place) => (free_mib[place] ?? 0) * MIB >= least ? [{ label, bytes: (free_mib[place] ?? 0) * MIB }] : []);
    return fit.length >= gpus ? [{ node: row.name, model, labels: fit.map((one) => one.label), bytes: Math.min(...fit.map((one) => one.bytes)) }] : [];
  }));
  return found.sort((a, b) => a.labels.length - b.labels.length || byName(a.node, b.node));
}
const MIB = 1024 ** 2;

/** The mean of these nodes at each time, by how many GPUs each has; null where none has a value. */
export function overAll(rows: NodeRow[], lines: ReadonlyMap<string, (number | null)[]>): (number | null)[] {
  const known = rows.flatMap((row) => { const line = lines.get(row.name); return line?.length ? [{ gpus: row.gpus || 1, line }] : []; });
  return Array.from({ length: Math.max(0, ...known.map(({ line }) => line.length)) }, (_, place) => {
    let [sum, gpus] = [0, 0];
    for (const one of known) {
      const value = one.line[place];
      if (value != null) [sum, gpus] = [sum + value * one.gpus, gpus + one.gpus];
    }
    return gpus ? sum / gpus : null;
  });
}

/** In how many columns and lines so many cells, about three times as wide as high, fill a place. */
export function cellsOf(count: number, width: number, height: number): { columns: number; lines: number } {
  let [columns, largest] = [1, 0];
  for (let tried = 1; tried <= count; tried += 1) {
    const size = Math.min(width / tried / 3, height / Math.ceil(count / tried));
    if (size > largest) [columns, largest] = [tried, size];
  }
  return { columns, lines: Math.max(1, Math.ceil(count / columns)) };
}

const STRIPES: Record<string, string> = { free: "var(--green)", idle: "var(--amber-lamp)", broken: "var(--red-lamp)", troubled: "var(--amber)", withheld: "var(--grey)", unknown: "var(--track)" };

/** A node's GPUs side by side in one background: where it is busy, by how much. */
export function stripesOf(row: NodeRow): string | undefined {
  const gpus = gpusOf(row);
  if (!gpus.length) return undefined;
  const width = 100 / gpus.length;
  const parts = gpus.map(({ state, load }, place) => {
    const colour = STRIPES[state] ?? `color-mix(in srgb, var(--value-util) ${20 + Math.round(0.8 * (load ?? 0))}%, var(--track))`;
    const end = `${((place + 1) * width).toFixed(2)}%`;
    return `${colour} ${(place * width).toFixed(2)}% calc(${end} - 2px), var(--ground) calc(${end} - 2px) ${end}`;
  });
  return `linear-gradient(to right, ${parts.join(", ")})`;
}

/** What can be asked of a node besides its name and what is wrong with it. */
export const FIELDS = ["user", "model", "state", "label"] as const;
export type Field = (typeof FIELDS)[number];

const VALUES: Record<Field, (row: NodeRow) => string[]> = {
  user: (row) => row.users,
  model: (row) => Object.keys(row.models),
  state: (row) => [row.state],
  label: (row) => [...row.labels ?? [], row.drained && "drained", row.simulated && "simulated", row.version && `version ${row.version}`].filter((one) => typeof one === "string"),
};

/** Every value that a field has, in order. */
export function choices(rows: NodeRow[], field: Field): string[] {
  return [...new Set(rows.flatMap(VALUES[field]))].sort(byName);
}

/** The nodes that the address asks for; every word of `q` has to be somewhere in a node. */
export function chosen(rows: NodeRow[], query: URLSearchParams): NodeRow[] {
  const words = (query.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const show = SHOWS.find((one) => one === query.get("show"));
  const asked = FIELDS.flatMap((field) => (query.get(field) ? [[field, query.get(field) as string] as const] : []));
  return rows.filter((row) => {
    if (show && !HAS[show](row)) return false;
    if (!asked.every(([field, value]) => VALUES[field](row).includes(value))) return false;
    if (!words.length) return true;
    const text = [row.name, row.reason ?? "", ...row.holders.map(taskWords), ...FIELDS.flatMap((field) => VALUES[field](row))].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

const URGENCY: Record<NodeRow["state"], number> = { sick: 0, silent: 1, new: 2, healthy: 3 };
/** Those that need someone first. */
export const needy = (a: NodeRow, b: NodeRow): number => URGENCY[a.state] - URGENCY[b.state] || byName(a.name, b.name);

const KEYS: Record<string, (row: NodeRow) => string | number | null> = {
  node: (row) => row.name,
  GPUs: (row) => row.gpus,
  model: modelsOf,
  free: freeOf,
  util: (row) => row.utilization_percent,
  hottest: (row) => row.temperature_celsius ?? null,
  memory: (row) => row.memory_percent,
  state: (row) => URGENCY[row.state],
  age: (row) => row.age_seconds,
};

/** Sorted by a column, those that need someone first where none is given; unknown values last. */
export function ordered(rows: NodeRow[], order: Order): NodeRow[] {
  const by = KEYS[order.name] ?? (KEYS["state"] as (row: NodeRow) => number);
  const sign = order.down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = [by(a), by(b)];
    if (x === null || y === null) return x === y ? byName(a.name, b.name) : x === null ? 1 : -1;
    const apart = typeof x === "number" && typeof y === "number" ? x - y : byName(String(x), String(y));
    return sign * apart || byName(a.name, b.name);
  });
}

export function colourOf(row: NodeRow): Colour {
  if (row.state === "sick") return row.alerts["critical"] || gpusOf(row).some((one) => one.state === "broken") ? "red" : "amber";
  return row.state === "healthy" ? "green" : "grey";
}

/** "train of alice", "job 12 of bob"; as `andon nodes` says it. */
export const taskWords = (task: NodeRow["holders"][number]): string =>
  `${task.name ?? (task.job === null || task.job === undefined ? "run" : `job ${task.job}`)} of ${task.user}`;

/** "8 H200", "2 A100, 1 RTX 4090" or "8 of 3 models"; as `andon nodes` says it. */
export function modelsOf(row: NodeRow): string {
  const models = Object.entries(row.models);
  if (models.length > MOST_MODELS) return `${row.gpus} of ${models.length} models`;
  return models.map(([model, count]) => `${count} ${model}`).join(", ") || String(row.gpus);
}
const MOST_MODELS = 2;

/** Which rows of a long list are drawn: those in sight and some beyond, from `first` up to `end`. */
export function inSight(count: number, rowHeight: number, top: number, height: number, beyond = 8): { first: number; end: number } {
  const first = Math.max(0, Math.min(count, Math.floor(top / rowHeight)) - beyond);
  return { first, end: Math.min(count, Math.ceil((Math.max(0, top) + height) / rowHeight) + beyond) };
}
