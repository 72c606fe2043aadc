/** The last minutes of every device, as received by this page; bounded. */
import type { Device, Recent, Snapshot } from "../api/types";

export const KEPT_SECONDS = 330;
export const METRICS = [
  "utilization_percent",
  "memory_used_bytes",
  "temperature_celsius",
  "power_watts",
  "sm_clock_mhz",
  "memory_clock_mhz",
  "sm_active_percent",
  "tensor_active_percent",
  "pcie_received_bytes_per_second",
  "pcie_sent_bytes_per_second",
  "nvlink_received_bytes_per_second",
  "nvlink_sent_bytes_per_second",
] as const;
export type Metric = (typeof METRICS)[number];
type Value = number | null;

export interface Ring {
  at: number[];
  values: Record<Metric, Value[]>;
  /** null where it is not known. */
  throttle: (string[] | null)[];
}

function empty(): Ring {
  const values = Object.fromEntries(METRICS.map((metric) => [metric, []])) as unknown as Ring["values"];
  return { at: [], values, throttle: [] };
}

export class Rings {
  private rings = new Map<string, Ring>();

  of(uuid: string): Ring {
    let ring = this.rings.get(uuid);
    if (!ring) this.rings.set(uuid, (ring = empty()));
    return ring;
  }

  add(snapshot: Snapshot): void {
    for (const device of snapshot.devices) this.put(device, snapshot.at);
    if (this.rings.size > snapshot.devices.length) this.forget(snapshot.devices);
  }

  /** Adds what the server recorded before this page was opened. */
  seed(recent: Recent): void {
    for (const [uuid, column] of Object.entries(recent.devices)) {
      const ring = this.of(uuid);
      const first = ring.at[0] ?? Infinity;
      const older = recent.at.flatMap((at, place) => (at < first ? [{ at, value: column[place] ?? null }] : []));
      ring.at.unshift(...older.map((one) => one.at));
      ring.throttle.unshift(...older.map(() => null));
      for (const metric of METRICS) {
        const isSeeded = metric === recent.metric;
        ring.values[metric].unshift(...older.map((one) => (isSeeded ? one.value : null)));
      }
    }
  }

  private put(device: Device, at: number): void {
    let ring = this.of(device.uuid);
    const last = ring.at.at(-1) ?? 0;
    if (last - at > KEPT_SECONDS) this.rings.set(device.uuid, (ring = empty())); // the clock was set back
    else if (last >= at) return;
    const sample = device.state === "ok" ? device.sample : null;
    ring.at.push(at);
    ring.throttle.push(sample?.throttle ?? null);
    for (const metric of METRICS) ring.values[metric].push(sample?.[metric] ?? null);
    const oldest = at - KEPT_SECONDS;
    let expired = 0;
    while ((ring.at[expired] ?? Infinity) < oldest) expired += 1;
    if (expired < 30) return; // removing many at a time is cheaper than one each second
    ring.at.splice(0, expired);
    ring.throttle.splice(0, expired);
    for (const metric of METRICS) ring.values[metric].splice(0, expired);
  }

  private forget(devices: Device[]): void {
    const here = new Set(devices.map((device) => device.uuid));
    for (const uuid of this.rings.keys()) if (!here.has(uuid)) this.rings.delete(uuid);
  }
}

/** The mean per span of `step` seconds, newest last; null where there is no reading. */
export function spans(at: number[], values: Value[], until: number, step: number, count: number): Value[] {
  const sums = new Float64Array(count);
  const counts = new Uint16Array(count);
  const end = Math.floor(until / step) + 1;
  for (let i = at.length - 1; i >= 0; i -= 1) {
    const place = count - (end - Math.floor((at[i] as number) / step));
    if (place < 0) break;
    const value = values[i];
    if (value === null || value === undefined || place >= count) continue;
    sums[place] = (sums[place] as number) + value;
    counts[place] = (counts[place] as number) + 1;
  }
  return Array.from(sums, (sum, place) => (counts[place] ? sum / (counts[place] as number) : null));
}
