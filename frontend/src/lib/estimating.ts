/** What the form of the estimate page sends, and how a GPU's bar is divided. */
import type { Estimate, EstimateFit } from "../api/types";

interface EstimateBody {
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

export interface Part {
  name: string;
  bytes: number;
  /** A colour of the palette; what is in use and what is free have none. */
  colour: string | null;
}

const PARTS: [keyof Needs, string, string][] = [
  ["weights_bytes", "weights", "--run-1"], ["kv_bytes", "KV cache", "--run-3"], ["gradients_bytes", "gradients", "--run-5"],
  ["optimizer_bytes", "optimizer", "--run-4"], ["activations_bytes", "activations", "--run-2"], ["overhead_bytes", "overhead", "--run-8"],
];
type Needs = NonNullable<Estimate["per_gpu"]>;

/** What a GPU's memory would hold: in use now, each part of the model, what the server adds for its cache, free; null if its size is not known. */
export function partsOf(fit: EstimateFit, needs: Needs | null): { parts: Part[]; free: number; over: number } | null {
  if (!fit.total_bytes || fit.free_bytes === null || needs === null) return null;
  const taken = Math.max(0, fit.total_bytes - fit.free_bytes);
  const own = PARTS.flatMap(([name, title, colour]) => (needs[name] ? [{ name: title, bytes: needs[name], colour }] : []));
  const minimum = own.reduce((sum, part) => sum + part.bytes, 0);
  const more = Math.max(0, fit.needed_bytes - minimum);
  const parts = [{ name: "in use", bytes: taken, colour: null }, ...own, { name: "more cache", bytes: more, colour: "--run-7" }].filter((part) => part.bytes > 0);
  const left = fit.total_bytes - taken - minimum - more;
  return { parts, free: Math.max(0, left), over: Math.max(0, -left) };
}

/** GPUs that look the same, in one row. */
export interface Alike {
  fit: EstimateFit;
  labels: string[];
}

/** Those that look the same stand together, the ones that fit first: eight H100 that are not here are one row. */
export function alike(fits: EstimateFit[]): Alike[] {
  const found = new Map<string, Alike>();
  for (const fit of fits) {
    const key = JSON.stringify([fit.name, fit.total_bytes, fit.free_bytes, fit.now, fit.empty, fit.reason]);
    const known = found.get(key);
    if (known) known.labels.push(fit.label);
    else found.set(key, { fit, labels: [fit.label] });
  }
  const rank = ({ fit }: Alike) => (fit.now ? 0 : fit.empty ? 1 : 2);
  return [...found.values()].sort((a, b) => rank(a) - rank(b));
}

/** The known models that fit what was typed so far; the popular ones at first. */
export function suggested(typed: string, models: string[], most = 10): string[] {
  const plain = (text: string) => text.toLowerCase().replace(/[^a-z0-9]/g, "");
  const term = plain(typed);
  if (!term || models.includes(typed)) return POPULAR.filter((name) => models.includes(name));
  return models.filter((name) => plain(name).includes(term)).slice(0, most);
}

const POPULAR = ["llama-3-8b", "llama-3-70b", "qwen2.5-7b", "qwen3-32b", "mistral-7b", "mixtral-8x7b", "gemma-3-27b", "deepseek-v3", "gpt-oss-20b", "gpt-oss-120b"];

/** `8.03 B`, `596 M`, `65536`, as the command line writes it. */
export function parameterText(count: number): string {
  if (count >= 1e9) return `${Number((count / 1e9).toPrecision(3))} B`;
  return count >= 1e6 ? `${Number((count / 1e6).toPrecision(3))} M` : String(count);
}
