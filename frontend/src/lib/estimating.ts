/** What the form of the estimate page sends, and how a GPU's bar is divided. */
import type { EstimateFit } from "../api/types";

export interface EstimateBody {
  model?: string;
  config?: unknown;
  task?: unknown;
  command?: string;
  on_gpus?: string;
  options: Record<string, string>;
}

/** A name, a server's command line, or the JSON of a config.json or a task; throws where it begins like JSON and is none. */
export function requestOf(text: string, options: Record<string, string>, gpus = ""): EstimateBody {
  const more = gpus ? { options, on_gpus: gpus } : { options };
  if (!text.startsWith("{")) return /\s/.test(text) ? { command: text, ...more } : { model: text, ...more };
  const read = JSON.parse(text) as Record<string, unknown>;
  return "parameters" in read && "model" in read ? { task: read, ...more } : { config: read, ...more };
}

/** The fields that were filled in, without the model and the GPUs. */
export function optionsOf(fields: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(fields).filter(([name, value]) => name !== "model" && name !== "gpus" && value !== ""));
}

/** What is taken and what is needed, in percent of the GPU's memory; null if it is not known. */
export function fitParts(fit: EstimateFit): { taken: number; needed: number } | null {
  if (!fit.total_bytes || fit.free_bytes === null) return null;
  const taken = Math.min(100, Math.max(0, 100 * (1 - fit.free_bytes / fit.total_bytes)));
  const needed = Math.min(100 - taken, (100 * fit.needed_bytes) / fit.total_bytes);
  return { taken, needed };
}

/** `8.03 B`, `596 M`, `65536`, as the command line writes it. */
export function parameterText(count: number): string {
  if (count >= 1e9) return `${Number((count / 1e9).toPrecision(3))} B`;
  return count >= 1e6 ? `${Number((count / 1e6).toPrecision(3))} M` : String(count);
}
