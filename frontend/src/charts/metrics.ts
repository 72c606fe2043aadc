/** What is drawn of a device: the readings of each chart, their units, scales and limits. */
import type { Device } from "../api/types";
import { bytes, known, ownWords, withUnit } from "../lib/format";
import type { Metric } from "../live/rings";
import type { Summary } from "./data";
import { GIB, scaleOf } from "./data";

export interface Limit {
  label: string;
  value: number;
}

interface ChartLine {
  label: string;
  metric: Metric;
  colour: string;
  /** What it is called away from its chart. */
  name?: string;
}

export interface ChartKind {
  title: string;
  lines: ChartLine[];
  unit: string;
  digits: number;
  /** The top of the scale where the device does not say it; else from the data. */
  top: number | null;
  limit: (device: Device) => Limit | null;
  /** A program's own values, which may be of any size, and below zero. */
  own?: (value: number) => string;
  /** Only of devices that report it. */
  rare?: boolean;
}

const limitOf = (label: string, value: number | null | undefined): Limit | null => (known(value) ? { label, value } : null);

const watts = (device: Device): number | null => device.sample?.power_limit_watts ?? device.limits.power_default_watts;

export const KINDS: ChartKind[] = [
  {
    title: "Utilisation", unit: "%", digits: 0, top: 100, limit: () => null,
    lines: [{ label: "utilisation", metric: "utilization_percent", colour: "--chart-util" }],
  },
  {
    title: "Memory", unit: "GiB", digits: 1, top: null,
    limit: (device) => limitOf("total", known(device.memory_total_bytes) ? device.memory_total_bytes / GIB : null),
    lines: [{ label: "memory", metric: "memory_used_bytes", colour: "--chart-memory" }],
  },
  {
    title: "Temperature", unit: "°C", digits: 0, top: 100,
    limit: (device) => limitOf("slowdown", device.limits.slowdown_celsius),
    lines: [{ label: "temperature", metric: "temperature_celsius", colour: "--chart-heat" }],
  },
  {
    title: "Power", unit: "W", digits: 0, top: null, limit: (device) => limitOf("power limit", watts(device)),
    lines: [{ label: "power", metric: "power_watts", colour: "--chart-power" }],
  },
  {
    title: "Clocks", unit: "MHz", digits: 0, top: null,
    limit: (device) => limitOf(`max ${ownWords(device.vendor).clock}`, device.limits.sm_clock_mhz),
    lines: [
      { label: "SM", metric: "sm_clock_mhz", colour: "--chart-1", name: "SM clock" },
      { label: "memory", metric: "memory_clock_mhz", colour: "--chart-2", name: "memory clock" },
    ],
  },
  {
    title: "Active share of the chip", unit: "%", digits: 0, top: 100, limit: () => null, rare: true,
    lines: [
      { label: "SM", metric: "sm_active_percent", colour: "--chart-1", name: "SM active" },
      { label: "tensor cores", metric: "tensor_active_percent", colour: "--chart-2", name: "tensor cores active" },
    ],
  },
  {
    title: "PCIe", unit: "MB/s", digits: 0, top: null, limit: () => null, rare: true,
    lines: [
      { label: "received", metric: "pcie_received_bytes_per_second", colour: "--chart-1", name: "PCIe received" },
      { label: "sent", metric: "pcie_sent_bytes_per_second", colour: "--chart-2", name: "PCIe sent" },
    ],
  },
  {
    title: "NVLink", unit: "GB/s", digits: 1, top: null, limit: () => null, rare: true,
    lines: [
      { label: "received", metric: "nvlink_received_bytes_per_second", colour: "--chart-1", name: "NVLink received" },
      { label: "sent", metric: "nvlink_sent_bytes_per_second", colour: "--chart-2", name: "NVLink sent" },
    ],
  },
];

/** The charts that a device has something for. */
export function kindsOf(device: Device, most: number = KINDS.length): ChartKind[] {
  const reported = (kind: ChartKind) => kind.lines.some((line) => known(device.sample?.[line.metric]));
  return KINDS.slice(0, most).filter((kind) => !kind.rare || reported(kind)).map((kind) => inWordsOf(device, kind));
}

/** The clock of the processors is called as its vendor does. */
function inWordsOf(device: Device, kind: ChartKind): ChartKind {
  const clock = ownWords(device.vendor).clock;
  const called = (line: ChartKind["lines"][number]) =>
    line.metric === "sm_clock_mhz" ? { ...line, label: clock.replace(/ clock$/, ""), name: clock } : line;
  return kind.lines.some((line) => line.metric === "sm_clock_mhz") ? { ...kind, lines: kind.lines.map(called) } : kind;
}

/** The readings of the page with all GPUs, by name. */
export const CHOICES: { metric: Metric; title: string; kind: ChartKind; colour: string }[] = KINDS.flatMap((kind) =>
  kind.lines.map((line) => ({
    metric: line.metric, kind, colour: line.colour,
    title: line.name ?? kind.title.toLowerCase(),
  })),
);

export function text(kind: ChartKind, value: number): string {
  if (kind.own) return kind.own(value);
  const rate = RATES[kind.unit];
  return rate ? `${bytes(value * rate)}/s` : withUnit(value, kind.unit, value < 99.95 ? kind.digits : 0);
}

const RATES: Record<string, number> = { "MB/s": 1e6, "GB/s": 1e9 };

/** "mean 63 % (10–99)"; one value where least and most are the same. */
export function spread(kind: ChartKind, found: Summary | null): string {
  if (!found) return "no reading";
  const mean = text(kind, found.mean);
  const low = text(kind, found.min);
  const high = text(kind, found.max);
  const unit = /\s.*/.exec(mean)?.[0] ?? "";
  const bare = low.endsWith(unit) && high.endsWith(unit) ? -unit.length || undefined : undefined;
  return low === high ? mean : `mean ${mean} (${low.slice(0, bare)}–\u2060${high.slice(0, bare)})`;
}

/** The reading of this instant, as the rest of the page shows it. */
export function nowOf(device: Device, metric: Metric): number | null {
  const value = device.state === "ok" ? device.sample?.[metric] : null;
  if (!known(value)) return null;
  return value / scaleOf(metric);
}

/** The end of the scale: above the limit, so that its line and its name have room. */
export function topOf(kind: ChartKind, limit: Limit | null): number | null {
  if (limit === null) return kind.top;
  return Math.max(kind.top ?? 0, limit.value * 1.12);
}
