/** Jobs as bars of a timeline: on the GPUs that they had, on clusters, and in the queue. */
import type { Job } from "../../api/types";
import { count, duration, hourOf, measured } from "../../lib/format";
import type { Span } from "../../lib/timeline";
import { isSettled, jobState } from "./words";

export const QUEUE = "queue";
export const RANGES: [string, number][] = [["6 h", 6 * 3600], ["1 d", 86_400], ["7 d", 7 * 86_400]];
const LEAST_AHEAD = 0.25; // of the time that is shown before now
const MOST_WAITING = 6; // bars in the queue's row: the table has all

/** A job in the address and among bars: without a space. */
export const jobId = (job: Pick<Job, "user" | "label">): string => `${job.user}/${job.label}`;

/** When a running job is expected to end: by its progress, else its limit; with where that comes from. */
export function expectedEnd(job: Pick<Job, "progress" | "started" | "for_seconds">, now: number): { at: number; from: string } | null {
  const steps = job.progress?.expected_end ?? null;
  if (steps !== null && steps > now) return { at: steps, from: "by its progress" };
  const limit = job.started !== null && job.for_seconds !== null ? job.started + job.for_seconds : null;
  return limit !== null && limit > now ? { at: limit, from: "its limit" } : null;
}

export function rowsOf(jobs: Job[], here: { label: string; href: string }[]): { id: string; title: string; href?: string | undefined }[] {
  const known = new Set(here.map((one) => one.label));
  const others = [...new Set(jobs.filter((job) => job.engine === null).flatMap((job) => job.devices))].filter((label) => !known.has(label));
  const clusters = [...new Set(jobs.flatMap((job) => job.engine ?? []))].sort();
  return [
    ...here.map(({ label, href }) => ({ id: label, title: `GPU ${label}`, href })),
    ...others.sort().map((label) => ({ id: label, title: `GPU ${label}` })),
    ...clusters.map((name) => ({ id: `at ${name}`, title: name })),
    { id: QUEUE, title: "waiting" },
  ];
}

/** A bar for each GPU that a job had; one that waits stands in the queue, from when it is expected to start. */
export function spansOf(jobs: Job[], now: number): Span[] {
  const waiting = jobs.filter((job) => !isSettled(job) && job.state !== "running").sort((a, b) => (a.position ?? Infinity) - (b.position ?? Infinity));
  const shown = new Set(waiting.slice(0, MOST_WAITING));
  return jobs.flatMap((job): Span[] => {
    const name = job.name && job.command !== "hidden" ? job.name : `job ${job.label}`;
    const { sign, word, tone } = jobState(job.state);
    const base = { who: job.user, label: `${sign} ${name}`, tone: `${job.state} ${tone}` };
    const title = `Job ${job.label} ${name === `job ${job.label}` ? "" : `${name} `}of ${job.user}`;
    if (!isSettled(job) && job.state !== "running") {
      if (!shown.has(job)) return [];
      const starts = job.expected_start !== null && job.expected_start > now ? job.expected_start : null;
      const says = `${title}: ${word} for ${duration(now - job.submitted_at)}, ${starts === null ? "when it starts is not known" : `expected to start about ${hourOf(starts, now)}`}`;
      const to = starts === null ? now : starts + (job.for_seconds ?? Math.max(900, (starts - now) / 2));
      return [{ ...base, id: `${jobId(job)} ${QUEUE}`, row: QUEUE, from: job.submitted_at, to, sure: now, says }];
    }
    if (job.started === null) return [];
    const rows = job.engine !== null ? [`at ${job.engine}`] : job.devices;
    const end = job.state === "running" ? expectedEnd(job, now) : null;
    const ended = job.ended ?? (job.seconds === null ? null : job.started + job.seconds);
    const to = job.state === "running" ? Math.max(now, end?.at ?? now) : (ended ?? job.started);
    const until = job.state !== "running" ? `${job.seconds === null ? "" : ` for ${measured(job.seconds)}`}, ended ${hourOf(to, now)}` : end === null ? `, its end is not known` : `, expected to end about ${hourOf(end.at, now)} (${end.from})`;
    const on = job.engine !== null ? `on ${job.where ?? job.engine}` : `on GPU ${job.devices.join(", ")}`;
    return rows.map((row) => ({ ...base, id: `${jobId(job)} ${row}`, row, from: job.started as number, to, sure: Math.min(now, to), says: `${title}: ${word} ${on} since ${hourOf(job.started as number, now)}${until}` }));
  });
}

/** From so long ago until what is expected, as far as that leaves room for the past. */
export function windowOf(seconds: number, spans: Span[], now: number): [number, number] {
  const last = Math.max(...spans.map((span) => span.to ?? now), now + LEAST_AHEAD * seconds);
  return [now - seconds, Math.min(last, now + seconds)];
}

/** "and 12 more wait": those that the queue's row does not show. */
export function moreWaiting(jobs: Job[]): string | null {
  const rest = jobs.filter((job) => !isSettled(job) && job.state !== "running").length - MOST_WAITING;
  return rest > 0 ? `and ${count(rest, "more job")}` : null;
}
