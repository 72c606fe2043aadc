/** Jobs in words. */
import type { ClusterState, Job, JobLog, JobPage, JobState } from "../../api/types";
import { count, DASH, duration, hourOf, measured, unbroken, words } from "../../lib/format";

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
  unknown: ["?", "dim"],
};
const MOST_TEXT = 512 * 1024;
const SETTLED: ReadonlySet<string> = new Set(["succeeded", "failed", "cancelled", "timed_out", "lost"]);
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

/** Why it waits or how it failed. */
export function whyText(job: Pick<Job, "state" | "begin_at" | "reason" | "error">): string {
  if (job.state === "later" && job.begin_at !== null) return `not before ${hourOf(job.begin_at)}`;
  return unbroken(job.reason ?? job.error ?? DASH);
}

export function endText(job: Job): string {
  if (job.exit_code !== null) return `exit code ${job.exit_code}`;
  return job.signal === null ? DASH : `signal ${job.signal}`;
}

export function summary(page: JobPage): string {
  const { waiting, running, ended } = page.counts;
  return [`${running} running`, `${waiting} waiting`, `${ended} ended`].join(", ");
}

/** Where it runs or waits: "n1 GPU 2", "here GPU 3". */
export function whereText(job: Pick<Job, "engine" | "where" | "devices">): string {
  if (job.engine !== null) return job.where ?? DASH;
  return job.devices.length ? `here GPU ${job.devices.join(", ")}` : "here";
}

/** "lab: no answer for 40 s (connection refused); its jobs are as of 12:03" */
export function awayText(cluster: ClusterState, now: number): string | null {
  if (cluster.trouble === null) return null;
  const since = cluster.at ?? cluster.failing_since ?? now;
  const known = cluster.at === null ? "its jobs are not known" : `its jobs are as of ${hourOf(cluster.at)}`;
  return `${cluster.name}: no answer for ${duration(Math.max(0, now - since))} (${cluster.trouble}); ${known}`;
}

/** The text with what came since; the beginning is dropped where it becomes too long. */
export function grown(before: { text: string; cut: boolean; end: number } | null, found: JobLog): { text: string; cut: boolean; end: number } {
  const follows = before !== null && found.start === before.end;
  const text = (follows ? before.text : "") + found.text;
  const cut = follows ? before.cut : found.start > 0;
  return text.length > MOST_TEXT ? { text: text.slice(-MOST_TEXT), cut: true, end: found.end } : { text, cut, end: found.end };
}

/** As a terminal shows it: what follows a carriage return replaces its line. */
export function overwritten(text: string): string {
  return text.replace(/[^\n]*\r(?=[^\r\n])/g, "").replace(/\r+(?=\n|$)/g, "");
}

/** What runs, then what waits, by its turn; and what has ended. */
export function split(jobs: Job[]): { ahead: Job[]; ended: Job[] } {
  const turn = (job: Job) => (job.state === "running" ? 0 : (job.position ?? (job.state === "waiting" ? 1e6 : 1e7)));
  const ahead = jobs.filter((job) => !isSettled(job)).sort((a, b) => turn(a) - turn(b) || a.submitted_at - b.submitted_at);
  return { ahead, ended: jobs.filter(isSettled) };
}

export function matches(job: Job, search: string): boolean {
  const term = search.trim().toLowerCase();
  return !term || [job.label, job.name, job.user, job.state, job.command, job.reason, job.where, ...job.tags, ...job.devices.map((one) => `gpu ${one}`)].some((text) => text?.toLowerCase().includes(term));
}

/** Something that a person can do to a job. */
export interface Act {
  button: string;
  /** A letter that no page uses. */
  key: string;
  /** The path of the request, after the job. */
  path: string;
  query?: Record<string, string>;
  title: string;
  confirm: string;
  /** The button that does not. */
  keep?: string;
  says: string;
  command: string;
}

/** What can be done to a job as it is now. */
export function actsOf(job: Pick<Job, "state" | "label" | "engine">): Act[] {
  const { label } = job;
  if (isSettled(job)) {
    return job.engine !== null ? [] : [{ button: "Retry", key: "y", path: "/retry", title: `Run job ${label} again?`, confirm: "Queue it again", keep: "Leave it ended", says: "It joins the queue as if it had just been submitted.", command: `andon jobs retry ${label}` }];
  }
  const running = job.state === "running";
  const acts: Act[] = [{
    button: "Cancel this job", key: "x", path: "/cancel", title: `Cancel job ${label}?`, confirm: "Cancel the job",
    says: running ? "Its command is asked to end, and killed if it does not." : "It leaves the queue and never starts.", command: `andon cancel ${label}`,
  }];
  if (job.engine !== null) return acts; // a cluster has its own queue
  if (running) {
    acts.push({ button: "Move to other GPUs", key: "m", path: "/requeue", title: `Stop job ${label} and queue it again?`, confirm: "Stop and queue it", keep: "Let it run", says: "Its command is asked to end; the job then waits for its next attempt.", command: `andon jobs requeue ${label}` });
  } else {
    acts.push(
      { button: "Move to the front", key: "f", path: "/move", query: { to: "first" }, title: `Move job ${label} to the front?`, confirm: "Move it", keep: "Leave its place", says: "It comes before your own other jobs of the same priority, not before those of others.", command: `andon jobs move ${label} --first` },
      { button: "Move to the end", key: "e", path: "/move", query: { to: "last" }, title: `Move job ${label} to the end?`, confirm: "Move it", keep: "Leave its place", says: "It comes after your own other jobs of the same priority.", command: `andon jobs move ${label} --last` },
      job.state === "held"
        ? { button: "Resume", key: "o", path: "/resume", title: `Let job ${label} wait for its turn again?`, confirm: "Resume it", keep: "Leave it held", says: "It takes its place in the queue again.", command: `andon jobs resume ${label}` }
        : { button: "Hold", key: "o", path: "/hold", title: `Hold job ${label}?`, confirm: "Hold it", keep: "Let it wait", says: "It stays in the queue and does not start until it is resumed.", command: `andon jobs hold ${label}` },
    );
  }
  return acts;
}
