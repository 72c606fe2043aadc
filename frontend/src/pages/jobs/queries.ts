/** Requests for jobs; the live event `job` keeps them up to date. */
import { useEffect, useRef, useState } from "react";
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { get, type Problem } from "../../api/client";
import { client } from "../../api/queries";
import type { Job, JobLog, JobNews, JobPage } from "../../api/types";
import { follow } from "../../live/socket";
import { grown, jobName, withJobs } from "./words";

type Found<T> = UseQueryResult<T, Problem>;
const KEPT_MS = 86_400_000; // the last known is shown while the server is away
const FOLLOW_MS = 1_000;
const AGAIN_MS = 15_000; // reasons and expected starts change without an event where no server follows

function useJobNews(): void {
  useEffect(() => follow<JobNews>("jobs", (news) => {
    client.setQueriesData<JobPage>({ queryKey: ["jobs"] }, (before) => before && withJobs(before, news));
    for (const job of news.jobs) {
      client.setQueriesData<Job>({ queryKey: ["job", jobName(job)] }, (before) => (before && before.user === job.user ? { ...before, ...job, environment: before.environment } : before));
    }
    if (!news.whole) void client.invalidateQueries({ queryKey: ["jobs"] });
  }), []);
}

export function useJobs(state: string, there = true): Found<JobPage> {
  useJobNews();
  return useQuery<JobPage, Problem>({
    queryKey: ["jobs", state],
    queryFn: ({ signal }) => get<JobPage>(`/api/jobs?state=${state}&limit=500`, signal),
    placeholderData: (before) => before,
    gcTime: KEPT_MS,
    refetchInterval: AGAIN_MS,
    enabled: there,
  });
}

/** The path of a job; `user` where root looks at another user's. */
export function jobPath(number: string, user: string, what = "", query: Record<string, string> = {}): string {
  const asked = new URLSearchParams({ ...query, ...(user && { user }) }).toString();
  return `/api/jobs/${encodeURIComponent(number)}${what}${asked && `?${asked}`}`;
}

export function useJob(number: string, user: string): Found<Job> {
  useJobNews();
  return useQuery<Job, Problem>({
    queryKey: ["job", number, user],
    queryFn: ({ signal }) => get<Job>(jobPath(number, user), signal),
    gcTime: KEPT_MS,
    refetchInterval: AGAIN_MS,
  });
}

/** The end of a job's output, which grows while the job runs. */
export function useLog(number: string, user: string, attempt: number, going: boolean): { text: string; cut: boolean; problem: Problem | null } {
  const [log, setLog] = useState<{ text: string; cut: boolean; end: number } | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const end = useRef<number | null>(null);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = new AbortController();
    const look = async () => {
      const after: Record<string, string> = end.current === null ? {} : { start: String(end.current) };
      try {
        const found = await get<JobLog>(jobPath(number, user, "/log", after), stop.signal);
        setProblem(null);
        end.current = found.end;
        setLog((before) => grown(before, found));
      } catch (error) {
        if (stop.signal.aborted) return;
        setProblem(error as Problem);
      }
      if (going) timer = setTimeout(look, FOLLOW_MS);
    };
    void look();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [number, user, attempt, going]);
  return { text: log?.text ?? "", cut: log?.cut ?? false, problem };
}
