/** What follows from who used which device and when. */
import type { UsageRow } from "../api/types";

export type Use = UsageRow & { device: string };

export interface Identity {
  pid: number;
  started: number | null;
}

/** From an address, "4242-1794918119.29"; null if it is none. */
export function identityOf(text: string): Identity | null {
  const found = /^(\d+)(?:-(\d+(?:\.\d+)?))?$/.exec(text);
  return found ? { pid: Number(found[1]), started: found[2] === undefined ? null : Number(found[2]) } : null;
}

const CLOCK_SECONDS = 1.5; // a start is known to a hundredth, or to a second

export function isSame(one: Identity, wanted: Identity): boolean {
  return one.pid === wanted.pid && (one.started === null || wanted.started === null || Math.abs(one.started - wanted.started) < CLOCK_SECONDS);
}

/** Who else was on the device meanwhile: its readings are not of this process alone. */
export function beside(uses: Use[], own: Use): string[] {
  const others = uses.filter((one) => one.device === own.device && !isSame(one, own) && one.first < own.last && one.last > own.first);
  return [...new Set(others.map((one) => one.user ?? `pid ${one.pid}`))];
}

/** Uses by device of one process, each from its first to its last moment. */
export function livesOf(uses: Use[], wanted: Identity): Use[] {
  const found = new Map<string, Use>();
  for (const one of uses.filter((use) => isSame(use, wanted))) {
    const known = found.get(one.device);
    const peaks = [known?.peak_memory_bytes, one.peak_memory_bytes].filter((value) => typeof value === "number");
    found.set(one.device, known ? {
      ...one, first: Math.min(known.first, one.first), last: Math.max(known.last, one.last), peak_memory_bytes: peaks.length ? Math.max(...peaks) : null,
    } : one);
  }
  return [...found.values()];
}

/** The cost of energy; null if the energy or the price is not known. */
export function costOf(joules: number | null, price: number | null): number | null {
  return joules === null || price === null ? null : (joules / 3.6e6) * price;
}
