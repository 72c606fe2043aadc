/** Who holds a device, in the words that there is room for. */
import type { Holder, Lease } from "../api/types";
import { count, hourOf } from "./format";

export interface Held {
  users: string;
  /** Where one lease alone holds it, and has an end. */
  until: string | null;
}

export function heldBy(holders: Holder[] | undefined): Held | null {
  const first = holders?.[0];
  if (!holders || !first) return null;
  const users = [...new Set(holders.map((one) => (one.state === "held" ? one.user : `${one.user} (${one.state})`)))].join(", ");
  return { users, until: holders.length > 1 || first.until === null ? null : hourOf(first.until) };
}

/** The last line of a tile: who computes there, and who holds it where that is another. */
export function occupants(who: string, users: string | null, until: string | null): string {
  if (users === null) return who || "nobody";
  const end = until === null ? "" : ` until ${until}`;
  if (!who) return `held by ${users}${end}`;
  const there = new Set(who.split(" · ", 1)[0]?.split(", "));
  const own = users.split(", ").every((user) => there.has(user));
  return own ? [who, end.trim()].filter(Boolean).join(" · ") : `held by ${users}${end}, used by ${who}`;
}

/** What ends with a lease that is given back; nobody should learn that afterwards. */
export function whatEnds(lease: Lease): string {
  switch (lease.kind) {
    case "library":
      return `The program that asked for it goes on, and its ${devices(lease)} may be given to somebody else.`;
    case "network":
      return `Whoever asked for it is not told, and its ${devices(lease)} may be given to somebody else.`;
    default:
      return `It ends ${lease.user}'s work: the command is asked to stop.`;
  }
}

function devices(lease: Lease): string {
  return lease.devices.length === 1 ? "GPU" : count(lease.devices.length, "GPU");
}

export interface Length {
  /** As a command takes it. */
  text: string;
  seconds: number;
}

const LENGTHS: Length[] = [
  { text: "1h", seconds: 3_600 },
  { text: "2h", seconds: 7_200 },
  { text: "4h", seconds: 14_400 },
  { text: "8h", seconds: 28_800 },
  { text: "1d", seconds: 86_400 },
  { text: "3d", seconds: 259_200 },
  { text: "7d", seconds: 604_800 },
];

/** How long from now on it may be made to last: an end that is nearer than its own extends nothing. */
export function longer(until: number, at: number): Length[] {
  return LENGTHS.filter((one) => at + one.seconds > until + 60);
}
