/** Who holds a device, as short text, and what releasing a lease does. */
import type { Holder, Lease, Verdict } from "../api/types";
import { count, hourOf } from "./format";

export interface Held {
  users: string;
  /** If exactly one lease holds it and that has an end. */
  until: string | null;
}

export function heldBy(holders: Holder[] | undefined): Held | null {
  const first = holders?.[0];
  if (!holders || !first) return null;
  const users = [...new Set(holders.map((one) => (one.state === "held" ? one.user : `${one.user} (${one.state})`)))].join(", ");
  return { users, until: holders.length > 1 || first.until === null ? null : `${hourOf(first.until)}${first.then ? `, then ${first.then}` : ""}` };
}

/** "for 20 min · alice, until 22:00": what a tile says under "held but idle". */
export function idleFor(lasted: string, held: Held | null): string {
  const who = held && [held.users, held.until && `until ${held.until}`].filter(Boolean).join(", ");
  return [`for ${lasted}`, who].filter(Boolean).join(" · ");
}

/** The last line of a tile: who uses it, and who holds it if that is someone else; where its word
 * says who holds it, only what is more. */
export function occupants(who: string, users: string | null, until: string | null, worded = false): string {
  if (users === null) return who || "no processes";
  const end = until === null ? "" : ` until ${until}`;
  if (worded) return [end.trim(), who || "no processes"].filter(Boolean).join(" · ");
  if (!who) return `held by ${users}${end}`;
  const there = new Set(who.split(" · ", 1)[0]?.split(", "));
  const own = users.split(", ").every((user) => there.has(user));
  return own ? [who, end.trim()].filter(Boolean).join(" · ") : `held by ${users}${end}, used by ${who}`;
}

/** Whether a device is available, in a few words: "free", "held by alice until 15:30", "in use by bob". */
export function verdictText(verdict: Verdict, at?: number): string {
  const by = verdict.by ? ` by ${verdict.by}` : "";
  switch (verdict.kind) {
    case "free":
      return "free";
    case "held":
      return `held${by}${verdict.until == null ? "" : ` until ${hourOf(verdict.until, at)}`}`;
    case "in_use":
      return `in use${by}`;
    default:
      return verdict.code === "next" && verdict.reason ? verdict.reason : `withheld: ${verdict.reason ?? "unknown reason"}`;
  }
}

/** The word of a tile: whether it can be had, and because of whom not. */
export function availability(kind: Verdict["kind"] | null, by: string | null, code: string | null): string | null {
  switch (kind) {
    case null:
      return null;
    case "held":
      return by ? `held by ${by}` : "held";
    case "in_use":
      return by ? `in use by ${by}` : "in use";
    case "withheld":
      return code === "cordoned" || code === "reserved" ? code : code === "next" ? "next in queue" : "withheld";
    default:
      return kind;
  }
}

/** How a calm device is and whether it can be had, without saying it twice. */
export function together(is: string, can: string): string {
  return can.startsWith(is) ? can : `${is} · ${can}`;
}

/** People alone, for a small tile: "alice", "alice +2". */
export function brief(who: string): string {
  const users = (who.split(" · ", 1)[0] ?? "").split(", ");
  const all = users.join(", ");
  return users.length > 1 && all.length > 12 ? `${users[0]} +${users.length - 1}` : all;
}

/** The first sentence of an advice. */
export function firstStep(advice: string): string {
  return /^.*?\.(?=\s|$)/s.exec(advice)?.[0] ?? advice;
}

/** The last line of a tile that no lease holds; where its word says whether it is available, only
 * what is more: why not, or its processes. */
export function unheld(kind: Verdict["kind"] | null, why: string | null, who: string, worded = false): string {
  if (worded && kind === "withheld") return why?.replace(/^promised to /, "") ?? (who || "no processes");
  if (worded) return who || "no processes";
  switch (kind) {
    case "free":
      return who ? `free · ${who}` : "free";
    case "in_use":
      return who ? `in use by ${who}` : "in use";
    case "withheld":
      return why === null ? ["withheld", who].filter(Boolean).join(" · ") : `withheld: ${why}`;
    default:
      return who || "no processes";
  }
}

/** What releasing this lease will stop; shown before it happens. */
export function whatEnds(lease: Lease): string {
  switch (lease.kind) {
    case "library":
      return `The program that requested it keeps running, and its ${devices(lease)} may be assigned to someone else.`;
    case "network":
      return `Its ${devices(lease)} may be assigned to someone else. What runs there keeps running, and ${lease.whom ?? "the client that requested it"} is not notified.`;
    default:
      return `This will stop ${lease.user}'s job (SIGTERM).`;
  }
}

function devices(lease: Lease): string {
  return lease.devices.length === 1 ? "GPU" : count(lease.devices.length, "GPU");
}

/** The line that opens a shell whose programs see only these GPUs; null where no variable can say so. */
export function startCommand(environment: Record<string, string>): string | null {
  const masks = Object.entries(environment).filter(([name, value]) => value && value !== "-1" && name !== "ANDON_LEASE");
  return masks.some(([name]) => name.includes("VISIBLE")) ? [...masks.map(([name, value]) => `${name}=${value}`), "$SHELL"].join(" ") : null;
}

interface Length {
  /** As commands accept it. */
  text: string;
  seconds: number;
}

export const LENGTHS: Length[] = [
  { text: "1h", seconds: 3_600 },
  { text: "2h", seconds: 7_200 },
  { text: "4h", seconds: 14_400 },
  { text: "8h", seconds: 28_800 },
  { text: "1d", seconds: 86_400 },
  { text: "3d", seconds: 259_200 },
  { text: "7d", seconds: 604_800 },
];

/** The durations from now that would extend it: those that end after its own end. */
export function longer(until: number, at: number): Length[] {
  return LENGTHS.filter((one) => at + one.seconds > until + 60);
}
