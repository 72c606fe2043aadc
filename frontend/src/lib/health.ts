/** What the server says of its parts, in words with units. */
import { bytes, count, dateOf, duration, known, words } from "./format";

export type Facts = Record<string, unknown>;

interface About {
  /** Since the server started. */
  uptime: number;
}

type Say = (value: number, facts: Facts, about: About) => string | null;

const NAMES: Record<string, string> = {
  sampler: "Sampling", store: "History", alerts: "Alerts", leases: "Leases", live: "Live connections",
};

/** The name of a part, as a person would call it. */
export function partName(name: string): string {
  return NAMES[name] ?? words(name);
}

const readings = (number: number) => count(number, "reading");

/** By part and fact; null says nothing, because it is as it should be. */
const SAY: Record<string, Record<string, Say>> = {
  sampler: {
    age_seconds: (value) => `last reading ${value < 10 ? value.toFixed(1) : value.toFixed(0)}\u00a0s ago`,
    interval_seconds: (value) => `one reading every ${value}\u00a0s`,
    snapshots: (value, _, { uptime }) => `${readings(value)} since the start ${duration(uptime)} ago`,
    missed: (value, facts, { uptime }) => (value ? missed(value, Number(facts["snapshots"] ?? 0), uptime) : "no reading missed"),
    sampler_cpu_seconds: (value, _, { uptime }) => `CPU of the sampling loop: ${share(value, uptime)}`,
    reader_cpu_seconds: (value, _, { uptime }) => `CPU of the driver readers: ${share(value, uptime)}`,
  },
  store: {
    buffered_snapshots: (value) => (value ? `${readings(value)} not written yet` : "nothing waits to be written"),
    dropped_snapshots: (value) => (value ? `${readings(value)} lost: they could not be written in time` : "no reading lost"),
    written_snapshots: (value) => `${readings(value)} written`,
    flushed: (value) => `last written ${dateOf(value)}`,
    since: (value) => `failing since ${dateOf(value)}`,
  },
  alerts: {
    firing: (value) => (value ? `${count(value, "alert")} firing, informational ones included` : "no alert is firing"),
    waiting: (value) => (value ? `${count(value, "notification")} not sent yet` : "no notification waits to be sent"),
    dropped: (value) => (value ? `${count(value, "notification")} given up` : null),
  },
  leases: { count: (value) => `${count(value, "lease")} held` },
  live: {
    clients: (value) => `${count(value, "client")} connected`,
    dropped: (value) => (value ? `${count(value, "client")} dropped: too slow` : null),
    refused: (value) => (value ? `${count(value, "connection")} refused` : null),
    malformed: (value) => (value ? `${count(value, "message")} not understood` : null),
    errors: (value) => (value ? `${count(value, "internal error")}` : "no errors"),
  },
};

/** The names of those through which people are notified; null if the server does not say. */
export function notifiersOf(alerts: unknown): string[] | null {
  const found = (alerts as Facts | null | undefined)?.["notifiers"];
  return Array.isArray(found) ? found.map((one: { name?: unknown }) => String(one.name)) : null;
}

/** "6 readings missed in 5 min (2 %)". */
export function missed(number: number, read: number, uptime: number): string {
  const part = (100 * number) / Math.max(1, number + read);
  const percent = part < 1 ? part.toFixed(1) : part.toFixed(0);
  return `${readings(number)} missed in ${duration(uptime)} (${percent}\u00a0%)`;
}

function share(seconds: number, uptime: number): string {
  return `${((100 * seconds) / Math.max(1, uptime)).toFixed(2)}\u00a0% of one core`;
}

/** Sentences about a part; what has no words here is named with its unit. */
export function sentences(part: string, facts: Facts, about: About): string[] {
  return Object.entries(facts).flatMap(([name, value]) => {
    const say = SAY[part]?.[name];
    if (say) return known(value as number) ? (say(value as number, facts, about) ?? []) : [];
    if (value === null || value === undefined || typeof value === "object") return [];
    if (name === "path") return [`lease book ${String(value)}`];
    if (name === "owner") return [`it belongs to ${String(value)}`];
    if (name === "readable") return [value ? "the lease book can be read" : "the lease book cannot be read"];
    return [`${words(name.replace(/_(seconds|bytes)$/, ""))}: ${plain(name, value)}`];
  });
}

function plain(name: string, value: unknown): string {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return String(value);
  if (name.endsWith("_seconds")) return value < 120 ? `${value.toFixed(value < 10 ? 2 : 0)}\u00a0s` : duration(value);
  if (name.endsWith("_bytes")) return bytes(value);
  return value.toLocaleString();
}

const STATES: Record<string, string> = {
  ok: "responding", stale: "not responding", lost: "lost", asleep: "asleep", unknown: "unknown",
};

/** "8 GPUs: 6 responding, 2 lost". */
export function devicesText(states: Record<string, number>): string {
  const all = Object.values(states).reduce((a, b) => a + b, 0);
  const parts = Object.entries(states).map(([state, number]) => `${number} ${STATES[state] ?? state}`);
  return `${count(all, "GPU")}: ${parts.join(", ") || "none"}`;
}

export interface PartState {
  /** Its name in the answer: "store", "sim", "reader". */
  name: string;
  title: string;
  state: string;
  reason: string | null;
  hint: string | null;
  told: string[];
}

const GOOD = new Set(["ok", "running", "absent", ""]);
/** What it means for people while a part does not work. */
const MEANS: Record<string, string> = {
  sampler: "the values on every page are old",
  store: "what is shown now is right, but charts will have a gap",
  alerts: "new alerts may not be noticed, and nobody is notified",
  leases: "GPUs can neither be taken nor given back here",
  live: "pages are updated late",
  reader: "a new one is started by itself; its GPUs are not read meanwhile",
};

/** "History is failing: the disk is full": what is wrong, what it means, and what to do. */
interface HealthTrouble {
  title: string;
  says: string;
  means: string | null;
  hint: string | null;
}

export function troublesOf(parts: PartState[]): HealthTrouble[] {
  return parts.filter((part) => !GOOD.has(part.state)).map((part) => ({
    title: part.title, says: `${part.title}: ${part.reason ?? part.state}`, means: MEANS[part.name] ?? null, hint: part.hint,
  }));
}

/** The whole page in one sentence. */
export function healthHeadline(parts: PartState[], status: string): string {
  const wrong = troublesOf(parts);
  if (wrong.length === 1) return wrong[0]?.says ?? status;
  if (wrong.length > 1) return `${wrong.length} parts do not work: ${wrong.map((one) => one.title).join(", ")}`;
  return status === "ok" ? "andon works as it should" : words(status);
}

const MUCH_MISSED = 0.02; // of the readings

/** What works and could be better: nobody is notified, readings are missed or lost. */
export function advice(health: { sampler: { missed: number; snapshots: number } } & Record<string, unknown>): { text: string; command: string }[] {
  const out: { text: string; command: string }[] = [];
  const { missed: gone, snapshots } = health.sampler;
  if (notifiersOf(health["alerts"])?.length === 0) out.push({ text: "Nobody is notified of alerts: to tell a Slack channel,", command: "andon alerts notify add slack URL" });
  if (gone / Math.max(1, gone + snapshots) > MUCH_MISSED) out.push({ text: `${readings(gone)} missed: the machine is busy, or a driver is slow.`, command: "andon cost" });
  const lost = Number((health["store"] as Facts | undefined)?.["dropped_snapshots"] ?? 0);
  if (lost > 0) out.push({ text: `${readings(lost)} could not be written in time: the disk is slow.`, command: "andon doctor" });
  if (!("store" in health)) out.push({ text: "There is no history: charts begin when this page is opened.", command: "andon serve" });
  return out;
}
