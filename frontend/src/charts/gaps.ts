/** Where nothing was read, and why. */
import type { Alert, Device } from "../api/types";
import type { Point } from "./data";

export interface Gap {
  since: number;
  until: number;
  why: string;
}

const LEAST_SECONDS = 20; // what was read last is not written down yet
const SILENT = new Set(["device_lost", "driver_hung", "unreadable", "driver_unreadable"]);

/** The ranges of more than three spans without a value, after the first that there is. */
export function gapsOf(at: number[], values: Point[], widths: number[], since: number, until: number): Omit<Gap, "why">[] {
  const found: Omit<Gap, "why">[] = [];
  let last = at.find((moment, place) => moment >= since && typeof values[place] === "number") ?? since;
  const close = (next: number, width: number) => {
    if (next - last > Math.max(LEAST_SECONDS, 3.2 * width)) found.push({ since: last, until: next });
  };
  at.forEach((moment, place) => {
    if (typeof values[place] !== "number" || moment > until) return;
    const width = widths[place] as number;
    close(moment, width);
    last = Math.max(last, moment + width);
  });
  close(until, widths[0] ?? 1);
  return found;
}

interface Known {
  device: Device;
  alerts: Alert[];
  since: number;
  now: number;
  /** Whether another reading, of this device or of another, was recorded in it. */
  others: (gap: Omit<Gap, "why">) => "device" | "node" | null;
}

/** In words, from what is known: an alert of that time, the device's state, what else was recorded. */
export function whyGap(gap: Omit<Gap, "why">, metric: string, { device, alerts, since, now, others }: Known): string {
  const goesOn = gap.until >= now - LEAST_SECONDS;
  const silent = alerts.find((one) => SILENT.has(one.rule) && [device.uuid, "node"].includes(one.subject) && one.since < gap.until && (one.resolved ?? Infinity) > gap.since);
  if (silent) return silent.message;
  if (goesOn && device.state !== "ok") return device.reason ?? `the GPU is ${device.state}`;
  const beside = others(gap);
  if (beside === "device") return device.missing[metric] ?? "this reading was not reported then";
  if (beside === "node") return "this GPU was not read, others were";
  if (gap.since <= since) return "nothing is recorded in this range";
  return "nothing was recorded: no server was running then";
}
