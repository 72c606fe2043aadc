/** What a tile shows of a device; the same object as long as the tile would not change. */
import { useSyncExternalStore } from "react";
import type { Device, Process } from "../api/types";
import { DASH, gib, hourOf, known, percent, withUnit } from "../lib/format";
import { type Paths, paths } from "../parts/Sparkline";
import { spans } from "./rings";
import { live } from "./store";

const SPAN_SECONDS = 5;
const SPANS = 60;
const REDRAWN_SECONDS = 15;

export interface Face {
  key: string;
  label: string;
  name: string;
  busy: number | null;
  memoryPercent: number | null;
  memoryUsed: number | null;
  memoryTotal: number | null;
  celsius: number | null;
  watts: number | null;
  wattsLimit: number | null;
  fan: number | null;
  who: string;
  /** When it was last read, and who was on it. */
  lastSeen: string;
  /** What it did then, of one whose hub does not hear its node. */
  last: string;
  /** It has no reading now. */
  silent: boolean;
  line: string;
  area: string;
}

const faces = new Map<string, { device: Device; face: Face }>();
const LONG_REDRAWN_SECONDS = 30;
const drawn = new Map<string, { slot: number; length: number; long: boolean; last: number | undefined; found: Paths }>();

export function useFace(uuid: string): Face | undefined {
  return useSyncExternalStore(live.subscribe, () => face(uuid));
}

function face(uuid: string): Face | undefined {
  const device = live.device(uuid);
  if (!device) {
    faces.delete(uuid);
    drawn.delete(uuid);
    return undefined;
  }
  const before = faces.get(uuid);
  if (before?.device === device) return before.face; // called several times per render
  const made = make(device);
  const kept = before?.face.key === made.key ? before.face : made;
  faces.set(uuid, { device, face: kept });
  return kept;
}

function make(device: Device): Face {
  const s = device.state === "ok" ? device.sample : null;
  const rounded = (value: number | null | undefined) => (value == null ? null : Math.round(value));
  const used = s?.memory_used_bytes ?? null;
  const found = {
    label: live.label(device.uuid),
    name: shortName(device.name),
    busy: rounded(s?.utilization_percent),
    memoryPercent: rounded(s?.memory_percent),
    memoryUsed: used === null ? null : Math.round(used / 107374182.4) * 107374182.4, // to a tenth of a GiB
    memoryTotal: device.memory_total_bytes,
    celsius: rounded(s?.temperature_celsius),
    watts: rounded(s?.power_watts),
    wattsLimit: rounded(s?.power_limit_watts),
    fan: rounded(s?.fan_percent),
    who: whoOf(device.processes),
    lastSeen: s ? "" : lastSeen(device),
    last: lastRead(device),
    silent: s === null,
    ...pathsOf(device.uuid, s === null ? device.sample?.at : undefined),
  };
  return { ...found, key: Object.values(found).join("|") };
}

/** Of the last hours, or of the last minutes while no more is known; seldom drawn again, to keep a full board cheap. */
function pathsOf(uuid: string, last: number | undefined): Paths {
  const ring = live.rings.of(uuid);
  const until = ring.at.at(-1) ?? 0;
  const long = live.hours.enough || (last !== undefined && until - last > SPANS * SPAN_SECONDS);
  const slot = Math.floor(until / (long ? LONG_REDRAWN_SECONDS : REDRAWN_SECONDS));
  const kept = drawn.get(uuid);
  if (kept && kept.last === last && kept.slot === slot && kept.long === long && (long || ring.at.length - kept.length < 6)) return kept.found;
  const end = last ?? until; // of one that is lost: the hours before
  const found = paths(long ? live.hours.of(uuid, end) : spans(ring.at, ring.values.utilization_percent, end, SPAN_SECONDS, SPANS));
  drawn.set(uuid, { slot, length: ring.at.length, long, last, found });
  return found;
}

export function shortName(name: string): string {
  return name.replace(/^(NVIDIA|AMD|Intel\(R\)|Intel)\s+/, "").replace(/^(GeForce|Radeon|Instinct)\s+/, "").replace(" (simulated)", "");
}

/** "last seen 11:29 with alice, bob"; empty if neither is known. */
export function lastSeen({ sample, last_users: users }: Device): string {
  if (!sample && !users.length) return "";
  return ["last seen", sample && hourOf(sample.at), users.length ? `with ${users.join(", ")}` : "without processes"].filter(Boolean).join(" ");
}

/** "at 11:29: 97 %, 61.2 GiB, 61 °C, 640 W"; empty while its node is heard. */
export function lastRead(device: Device): string {
  const s = device.state === "unknown" ? device.sample : null;
  if (!s) return "";
  const memory = known(s.memory_used_bytes) ? `${gib(s.memory_used_bytes)}\u00a0GiB` : DASH;
  const read = [percent(s.utilization_percent), memory, withUnit(s.temperature_celsius, "°C"), withUnit(s.power_watts, "W")];
  return `at ${hourOf(s.at)}: ${read.filter((one) => one !== DASH).join(", ")}`;
}

/** Users by the memory they hold: "alice, bob"; a single user with the program: "alice · python". */
function whoOf(processes: Process[]): string {
  const held = new Map<string, number>();
  for (const one of processes) {
    const user = one.user ?? `pid ${one.pid}`;
    held.set(user, (held.get(user) ?? 0) + (one.memory_bytes ?? 0));
  }
  const users = [...held].sort((a, b) => b[1] - a[1]).map(([user]) => user);
  if (users.length !== 1) return users.join(", ");
  const names = new Set(processes.map((one) => one.program).filter(Boolean));
  return names.size === 1 ? `${users[0]} · ${[...names][0]}` : (users[0] ?? "");
}
