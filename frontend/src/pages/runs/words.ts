/** What is said of a run, in words. */
import type { RunDetails, RunEntry, RunState, RunUse } from "../../api/types";
import { bytes, DASH, gib, known, whole, words } from "../../lib/format";

export const MOST_OVERLAID = 24;
const MARKS: Partial<Record<RunState, [string, string]>> = {
  running: ["●", "good"], succeeded: ["✓", "good"], stopped: ["■", ""], ended: ["■", ""], not_started: ["○", ""], lost: ["?", "bad"],
};

/** A sign, the word, and how it looks: colour is never the only sign. */
export function stateOf(state: RunState): { sign: string; word: string; tone: string } {
  const [sign, tone] = MARKS[state] ?? ["✕", "bad"];
  return { sign, word: state === "device_out_of_memory" ? "out of GPU memory" : state === "host_out_of_memory" ? "out of host memory" : words(state), tone };
}

/** "63 % (10–99)": mean, least and most. */
export function spreadText(use: RunUse, reading: string, unit: string): string {
  const found = use.readings[reading];
  if (!found || !known(found.mean)) return DASH;
  const text = reading === "memory_used_bytes" ? gib : whole;
  const [low, mean, high] = [text(found.min), text(found.mean), text(found.max)];
  return low === high ? `${mean} ${unit}` : `${mean} ${unit} (${low}–${high})`;
}

/** Why there is nothing to draw; null if there is something. */
export function nothingDrawn(run: Pick<RunEntry, "telemetry_reason" | "state"> & { series: { at: number[] }; curves: RunDetails["curves"] }): string | null {
  if (run.series.at.length || Object.keys(run.curves).length) return null;
  if (run.telemetry_reason) return run.telemetry_reason;
  return run.state === "running" ? "the first sample has not been read yet" : "its record has no samples";
}

/** How much of a record has been read; null if all of it. */
export function readText(read: { bytes: number; of_bytes: number }): string | null {
  if (read.bytes >= read.of_bytes) return null;
  return `reading the record: ${Math.floor((100 * read.bytes) / read.of_bytes)}\u00a0% of ${bytes(read.of_bytes)}`;
}

export function share(value: number | null | undefined): string {
  return known(value) ? `${(100 * value).toFixed(0)}\u00a0%` : DASH;
}

/** "0:07", "12:30", "1 d 2:03:00": a time since the start, as exact as a chart is. */
export function sinceStart(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  const two = (value: number) => String(value).padStart(2, "0");
  const [days, hours, minutes] = [Math.floor(s / 86_400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
  const clock = s >= 3600 ? `${hours}:${two(minutes)}:${two(s % 60)}` : `${minutes}:${two(s % 60)}`;
  return days ? `${days} d ${clock}` : clock;
}

/** The tag of runs that are listed first. */
export const PINNED = "pinned";

export const PAGE = 50;
export const FILTERS = [["state", "state", "states"], ["model", "GPU", "models"], ["tag", "tag", "tags"], ["group", "group", "groups"]] as const;

/** So many are loaded at once where they are sorted, filtered by a value, or drawn. */
const MOST_LOADED = 500;
export const wantsAll = (query: URLSearchParams): boolean => ["sort", "where", "scatter", "group"].some((name) => query.has(name));

/** What is sent: the filters of the address, and the search. */
export function requestOf(query: URLSearchParams, search: string): string {
  const out = new URLSearchParams({ limit: String(wantsAll(query) ? MOST_LOADED : PAGE) });
  for (const [name] of FILTERS) if (query.get(name)) out.set(name, query.get(name) as string);
  if (query.get("on")) out.set("node", query.get("on") as string);
  if (search.trim()) out.set("search", search.trim());
  const offset = Number(query.get("offset") ?? 0);
  if (offset > 0 && !wantsAll(query)) out.set("offset", String(offset));
  return out.toString();
}
