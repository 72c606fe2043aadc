/** How far programs are, by their own word: in a line, in a few words, and by device. */
import type { Job, RunEntry } from "../api/types";
import { DASH, duration } from "./format";

type Progress = NonNullable<Job["progress"]>;

/** What runs on a device and says how far it is. */
export interface Work {
  run: string;
  name: string;
  user: string | null;
  progress: Progress;
}

/** "450/1000 (45 %), epoch 3/10, 12 min left"; a time that is over is not mentioned. The commands have the same rule. */
export function progressText(progress: Progress | null, now: number): string {
  if (progress === null) return DASH;
  const parts = [`${progress.step}/${progress.total} (${share(progress)}\u00a0%)`];
  if (progress.label) parts.push(progress.label);
  return [...parts, ...left(progress, now)].join(", ");
}

/** "45 %, 12 min left" */
export function briefProgress(progress: Progress, now: number): string {
  return [`${share(progress)}\u00a0%`, ...left(progress, now)].join(", ");
}

function share({ step, total }: Progress): number {
  return Math.floor((100 * step) / total);
}

function left({ step, total, expected_end: end }: Progress, now: number): string[] {
  return end !== null && end >= now && step < total ? [`${duration(end - now)} left`] : [];
}

/** By the uuid of the device, the latest first. */
export function workOf(runs: RunEntry[]): Map<string, Work[]> {
  const found = new Map<string, Work[]>();
  for (const { id, name, user, progress, devices, state } of runs) {
    if (progress === null || state !== "running") continue;
    for (const { uuid } of devices) found.set(uuid, [...(found.get(uuid) ?? []), { run: id, name, user, progress }]);
  }
  return found;
}

/** People and how far their work is, for a line that has no room for its program: "alice · 45 %, 12 min left". */
export function whoAndProgress(who: string, progress: string | null): string {
  if (progress === null) return who;
  return who === "no processes" ? progress : [who.split(" · ", 1)[0], progress].filter(Boolean).join(" · ");
}
