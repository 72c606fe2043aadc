/** The node at a glance: what its GPUs do together, apart from the host's own values. */
import type { Device, Snapshot, Verdict } from "../api/types";
import { bytes, gib, known, percent, withUnit } from "./format";

export interface Totals {
  /** Devices that may be taken now; null where that is not known. */
  free: Device[] | null;
  busy: string | null;
  memory: string | null;
  power: string | null;
  hottest: string | null;
  /** "7 of 8 respond"; null if all do. */
  silent: string | null;
}

export function totals(snapshot: Snapshot, verdicts: Map<string, Verdict>): Totals {
  const boards = snapshot.devices.filter((device) => device.parent === null);
  const read = boards.filter((device) => device.state === "ok" && device.sample);
  const of = (pick: (device: Device) => number | null | undefined) => read.map(pick).filter(known);
  const sum = (values: number[]) => values.reduce((a, b) => a + b, 0);
  const busy = of((one) => one.sample?.utilization_percent);
  const held = of((one) => one.sample?.memory_used_bytes);
  const all = boards.map((one) => one.memory_total_bytes).filter(known);
  const watts = of((one) => one.sample?.power_watts);
  const heat = of((one) => one.sample?.temperature_celsius);
  const asleep = boards.filter((one) => one.state === "asleep").length;
  const awake = boards.length - asleep;
  return {
    free: verdicts.size ? snapshot.devices.filter((one) => verdicts.get(one.uuid)?.kind === "free") : null,
    busy: busy.length ? percent(sum(busy) / busy.length) : null,
    memory: held.length && all.length ? `${short(sum(held))} of ${short(sum(all))}\u00a0GiB` : null,
    power: watts.length ? power(sum(watts)) : null,
    hottest: heat.length ? withUnit(Math.max(...heat), "°C") : null,
    silent: read.length < awake ? `${read.length} of ${awake} respond` : null,
  };
}

/** Sums need no tenths from ten GiB on. */
function short(bytes: number): string {
  const size = bytes / 1024 ** 3;
  return size >= 10 ? size.toFixed(0) : gib(bytes);
}

function power(watts: number): string {
  return watts >= 1000 ? `${(watts / 1000).toFixed(1)}\u00a0kW` : withUnit(watts, "W");
}

/** "disk 1.2 MB/s read, 0 B/s written"; null where nothing is known. */
function both(name: string, first: number | null | undefined, one: string, second: number | null | undefined, other: string): string | null {
  const parts = [known(first) ? `${bytes(first)}/s ${one}` : null, known(second) ? `${bytes(second)}/s ${other}` : null].filter(Boolean);
  return parts.length ? `${name} ${parts.join(", ")}` : null;
}

export function hostLine(host: Snapshot["host"]): string {
  const ram = known(host.memory_used_bytes)
    ? `RAM ${gib(host.memory_used_bytes)}${known(host.memory_total_bytes) ? ` of ${gib(host.memory_total_bytes)}` : ""}\u00a0GiB` : null;
  return [
    known(host.cpu_percent) ? `CPU ${percent(host.cpu_percent)}` : null, ram,
    known(host.load_1m) ? `load ${host.load_1m.toFixed(1)}` : null,
    both("disk", host.disk_read_bytes_per_second, "read", host.disk_written_bytes_per_second, "written"),
    both("network", host.network_received_bytes_per_second, "received", host.network_sent_bytes_per_second, "sent"),
  ].filter(Boolean).join(" · ");
}
