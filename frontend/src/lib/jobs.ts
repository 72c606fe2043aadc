/** What jobs are called, and what a live event does to a list of them. */
import type { Job, JobNews, JobPage } from "../api/types";

export const jobKey = (job: Pick<Job, "user" | "label">): string => `${job.user} ${job.label}`;

/** What requests and links call it: a number, or a cluster and its id. */
export const jobName = (job: Pick<Job, "engine" | "label" | "number">): string => (job.engine === null ? String(job.number) : job.label);

/** The user whom a link to a job of this page names: of several users, one that it does not mean anyway. */
export const userNamed = (page: Pick<JobPage, "scope" | "user">, job: Pick<Job, "user">): string | undefined => ((page.scope === "everyone" && job.user !== page.user) || page.scope === "node" ? job.user : undefined);

/** The path of a job; `user` where root looks at another user's, or someone at those of a node. */
export function jobPath(number: string, user: string, what = "", query: Record<string, string> = {}): string {
  const asked = new URLSearchParams({ ...query, ...(user && { user }) }).toString();
  return `/api/jobs/${encodeURIComponent(number)}${what}${asked && `?${asked}`}`;
}

/** The list with changed jobs in their places, new ones first; what no longer matches stays until the next request. */
export function withJobs(page: JobPage, news: JobNews): JobPage {
  const fresh = new Map(news.jobs.map((job) => [jobKey(job), job]));
  const gone = new Set(news.gone.map(jobKey));
  const kept = page.jobs.filter((job) => !gone.has(jobKey(job))).map((job) => fresh.get(jobKey(job)) ?? job);
  const known = new Set(page.jobs.map(jobKey));
  const added = news.jobs.filter((job) => !known.has(jobKey(job))).sort((a, b) => b.submitted_at - a.submitted_at || b.number - a.number);
  return { ...page, counts: news.counts, paused: news.paused, jobs: [...added, ...kept] };
}
