/** What live events change in the answers that pages show. */
import { jobName, jobPath, withJobs } from "../lib/jobs";
import { about, client, keyOf, refresh, throttledRefresh } from "./asking";
import type { Alert, Alerts, Job, JobNews, JobPage, NodeList, NodeNews } from "./types";

export const LATEST_ALERTS = "/api/alerts?limit=200";

const refreshAlerts = throttledRefresh(5_000, "alerts");

/** One alert changed: update it at once, then refresh the rest. */
export function onAlert(alert: Alert): void {
  client.setQueryData<Alerts>(keyOf({ path: LATEST_ALERTS }, null), (before) => {
    if (!before) return before;
    const others = before.alerts.filter((one) => one.id !== alert.id);
    return { ...before, alerts: [alert, ...others] };
  });
  refreshAlerts();
}

/** Leases changed; they are fetched with the session's own rights. */
export const onLeases = throttledRefresh(2_000, "leases");

/** A node of a hub has reported again: nothing of it is pushed. */
export const onReport = throttledRefresh(4_000, "alerts", "leases", "jobs");

/** After a reconnect everything may have changed. */
export function onReturn(): void {
  void client.invalidateQueries();
}

function onJobs(news: JobNews): void {
  client.setQueriesData<JobPage>(about("list of jobs", null), (before) => before && withJobs(before, news));
  for (const job of news.jobs) {
    for (const user of ["", job.user]) {
      client.setQueryData<Job>(keyOf({ path: jobPath(jobName(job), user) }, null), (before) => before && before.user === job.user ? { ...before, ...job, environment: before.environment } : before);
    }
  }
  if (!news.whole) void refresh("list of jobs");
}

function onNodes({ nodes, gone, whole }: NodeNews): void {
  client.setQueryData<NodeList>(keyOf({ path: "/api/nodes" }, null), (before) => {
    const left = new Set([...gone, ...nodes.map((one) => one.name)]);
    return before && { ...before, nodes: [...(whole ? [] : before.nodes.filter((one) => !left.has(one.name))), ...nodes] };
  });
}

export const NODE_NEWS = { topic: "nodes", heard: onNodes };
export const JOB_NEWS = { topic: "jobs", heard: onJobs };
export const RUN_NEWS = { topic: "runs", heard: () => void refresh("list of runs") };
