/** Values as text. Unknown is a dash, never a zero; a number is never parted from its unit. */
import { LABELS, OWN_WORDS, THROTTLE, VENDORS } from "./tables";

export const DASH = "–";
export const NB = "\u00a0";
const GIB = 1024 ** 3;
type Value = number | null | undefined;

export function known(value: Value): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

export function whole(value: Value): string {
  return known(value) ? value.toFixed(0) : DASH;
}

export function withUnit(value: Value, unit: string, digits = 0): string {
  return known(value) ? `${value.toFixed(digits)}${NB}${unit}` : DASH;
}

const PARTED = /(\d) (?=(?:%|°C|k?Wh?|J|[kMGT]i?B|B|[MG]Hz|ms|s|min|h|d)(?![\w°]))/g;

/** A sentence of the server, in which no line ends between a number and its unit. */
export function unbroken(text: string): string {
  return text.replace(PARTED, `$1${NB}`);
}

export function percent(value: Value): string {
  return withUnit(value, "%");
}

/** "0.70 J", "504 J", "12.4 Wh", "0.09 kWh" and, of an estimate from power and time, "~504 J"; as the commands say it. */
export function energy(joules: Value, source: string | null = null): string {
  if (!known(joules)) return DASH;
  const mark = source === "power" ? "~" : "";
  const hours = joules / 3600;
  if (hours < 1) return `${mark}${joules.toFixed(joules >= 10 || !joules ? 0 : joules >= 1 ? 1 : 2)}${NB}J`;
  return mark + (hours < 50 ? `${hours.toFixed(1)}${NB}Wh` : `${(hours / 1000).toFixed(2)}${NB}kWh`);
}

/** GiB with up to three significant digits: 0.4, 12.1, 140. */
export function gib(bytes: Value): string {
  if (!known(bytes)) return DASH;
  const size = bytes / GIB;
  return size >= 99.95 ? size.toFixed(0) : size.toFixed(1);
}

export const inGib = (bytes: Value): string => `${gib(bytes)}${NB}GiB`;

export function used(part: Value, all: Value, unit: string, text = whole): string {
  if (!known(part)) return DASH;
  return known(all) ? `${text(part)} / ${text(all)}${NB}${unit}` : `${text(part)}${NB}${unit}`;
}

export function bytes(value: Value): string {
  if (!known(value)) return DASH;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${size.toFixed(unit === 0 || size >= 100 ? 0 : 1)}${NB}${units[unit]}`;
}

/** "2.6 GB/s / 578 MB/s": what comes in and goes out; a dash where neither is known. */
export function traffic(first: Value, second: Value): string {
  if (!known(first) && !known(second)) return DASH;
  return [first, second].map((one) => (known(one) ? `${bytes(one)}/s` : DASH)).join(" / ");
}

const two = (count: number, each: number, large: string, small: string) =>
  `${Math.floor(count / each)}${NB}${large}${count % each ? ` ${count % each}${NB}${small}` : ""}`;

function hours(seconds: number): string {
  const minutes = Math.round(seconds / 60);
  return minutes < 1440 ? two(minutes, 60, "h", "min") : two(Math.round(seconds / 3600), 24, "d", "h");
}

/** How long something has lasted: "45 s", "1 min 30 s", "12 min", "3 h 20 min", "5 d 2 h"; as the commands say it. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 120) return whole < 60 ? `${whole}${NB}s` : two(whole, 60, "min", "s");
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? `${minutes}${NB}min` : hours(seconds);
}

/** How long something took, fine enough to compare: "67 ms", "1.94 s", "45.3 s", "12 min 6 s". */
export function measured(seconds: number): string {
  const parts = (each: number) => Math.max(0, Math.round(seconds * each));
  if (parts(1000) < 100) return parts(1000) ? `${parts(1000)}${NB}ms` : `0${NB}s`;
  if (parts(100) < 1000) return `${parts(100) / 100}${NB}s`;
  if (parts(10) < 600) return `${parts(10) / 10}${NB}s`;
  return parts(1) < 3600 ? two(parts(1), 60, "min", "s") : hours(seconds);
}

const HOUR = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;
const moment = new Intl.DateTimeFormat("sv", { ...HOUR, year: "numeric", month: "2-digit", day: "2-digit", second: "2-digit" });
const weekday = new Intl.DateTimeFormat(undefined, { ...HOUR, weekday: "short" });
const DAY_SECONDS = 86_400;

/** "2026-11-16 16:57:03", as the commands write it. */
export function momentOf(at: number): string {
  return moment.format(at * 1000);
}

export function dateOf(at: number): string {
  return momentOf(at).slice(0, 16);
}

/** A time: the hour if it is within half a day, else with the weekday or the date. */
export function hourOf(at: number, now: number = Date.now() / 1000): string {
  const far = Math.abs(at - now);
  if (far > 6 * DAY_SECONDS) return dateOf(at);
  return far > DAY_SECONDS / 2 ? weekday.format(at * 1000) : momentOf(at).slice(11, 16);
}

export function words(name: string): string {
  return name.replaceAll("_", " ");
}

/** What a vendor calls the number and the clock of its devices: "HIP index", "core clock". */
export function ownWords(vendor: string): { index: string; clock: string } {
  return OWN_WORDS[vendor] ?? { index: "device number", clock: "clock" };
}

/** A reading as people call it, in its vendor's words. */
export function readingName(name: string, vendor: string): string {
  return name === "sm_clock_mhz" ? ownWords(vendor).clock : (LABELS[name] ?? words(name));
}

/** A throttle reason as people call it. */
export function throttleName(reason: string): string {
  return THROTTLE[reason]?.title ?? words(reason);
}

/** Whether a reason only says that there is nothing to do. */
export function isIdle(reason: string): boolean {
  return THROTTLE[reason]?.kind === "idle";
}

/** Red for a warning by itself, amber for a limit on power. */
export function throttleTone(reason: string): string {
  const row = THROTTLE[reason];
  if (row?.alarming) return "red";
  return row?.kind === "power" ? "amber" : "grey";
}

/** Whose devices a reader reads. */
export function vendorName(source: string): string {
  const title = VENDORS[source];
  return title === undefined ? source : `${title} GPUs`;
}

/** "1 GPU", "8 GPUs". */
export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
