/** Jobs in words, and lists that follow the news. */
import type { Job, JobLog, JobNews, JobPage, JobState } from "../../api/types";
import { count, DASH, duration, hourOf, measured, words } from "../../lib/format";

const MARKS: Record<JobState, [string, string]> = {
  waiting: ["◌", "dim"],
  held: ["‖", "warn"],
  later: ["◷", "dim"],
  running: ["●", "good"],
  succeeded: ["✓", "good"],
  failed: ["✕", "bad"],
  cancelled: ["–", "dim"],
  timed_out: ["◷", "bad"],
  lost: ["?", "bad"],
};
const MOST_TEXT = 512 * 1024;
export const SETTLED: ReadonlySet<string> = new Set(["succeeded", "failed", "cancelled", "timed_out", "lost"]);
export const STATES: [string, string][] = [["", "all"], ["active", "not ended"], ["waiting", "waiting"], ["running", "running"], ["failed", "failed"], ["lost", "lost"]];

export function jobState(state: JobState): { sign: string; word: string; tone: string } {
  const [sign, tone] = MARKS[state];
  return { sign, word: words(state), tone };
}

export function isSettled(job: Pick<Job, "state">): boolean {
  return SETTLED.has(job.state);
}

/** "about 14:20, from 6 runs" */
export function expected(job: Pick<Job, "expected_start" | "expected_from">): string {
  if (job.expected_start === null) return DASH;
  return `about ${hourOf(job.expected_start)}${job.expected_from ? `, from ${count(job.expected_from, "run")}` : ""}`;
}

/** How long it ran, runs, or has waited. */
export function timeText(job: Pick<Job, "seconds" | "started" | "state" | "submitted_at">, now: number): string {
  if (job.seconds !== null) return measured(job.seconds);
  if (job.started !== null && job.state === "running") return duration(Math.max(0, now - job.started));
  return isSettled(job) ? DASH : duration(Math.max(0, now - job.submitted_at));
}

export function endText(job: Job): string {
  if (job.exit_code !== null) return `exit code ${job.exit_code}`;
  return job.signal === null ? DASH : `signal ${job.signal}`;
}

export function summary(page: JobPage): string {
  const { waiting, running, ended } = page.counts;
  return [`${running} running`, `${waiting} waiting`, `${ended} ended`].join(", ");
}

/** The list with changed jobs in their places, new ones first; what no longer matches stays until the next request. */
export function withJobs(page: JobPage, news: JobNews): JobPage {
  const fresh = new Map(news.jobs.map((job) => [job.number, job]));
  const gone = new Set(news.gone);
  const kept = page.jobs.filter((job) => !gone.has(job.number)).map((job) => fresh.get(job.number) ?? job);
  const known = new Set(page.jobs.map((job) => job.number));
  const added = news.jobs.filter((job) => !known.has(job.number)).sort((a, b) => b.number - a.number);
  return { ...page, counts: news.counts, paused: news.paused, jobs: [...added, ...kept] };
}

/** The text with what came since; the beginning is dropped where it becomes too long. */
export function grown(before: { text: string; cut: boolean; end: number } | null, found: JobLog): { text: string; cut: boolean; end: number } {
  const follows = before !== null && found.start === before.end;
  const text = (follows ? before.text : "") + found.text;
  const cut = follows ? before.cut : found.start > 0;
  return text.length > MOST_TEXT ? { text: text.slice(-MOST_TEXT), cut: true, end: found.end } : { text, cut, end: found.end };
}

export function matches(job: Job, search: string): boolean {
  const term = search.trim().toLowerCase();
  return !term || [job.label, job.name, job.state, job.command, job.reason, ...job.tags, ...job.devices.map((one) => `gpu ${one}`)].some((text) => text?.toLowerCase().includes(term));
}
