/** Requests for runs; live events keep them up to date. */
import { useEffect } from "react";
import { useQueries, useQuery, type UseQueryResult } from "@tanstack/react-query";
import { bearer, get, Problem } from "../../api/client";
import { client } from "../../api/queries";
import type { RunCourses, RunDetails, RunList, RunMarks, RunUpdate } from "../../api/types";
import { follow } from "../../live/socket";
import { withNews } from "./data";

type Found<T> = UseQueryResult<T, Problem>;
const GOING_MS = 10_000;
const READING_MS = 400;

const KEPT_MS = 86_400_000; // the last known is shown while the server is away

export function useRuns(query: string): Found<RunList> {
  useEffect(() => follow("runs", () => void client.invalidateQueries({ queryKey: ["runs"] })), []);
  return useQuery<RunList, Problem>({
    queryKey: ["runs", query],
    queryFn: ({ signal }) => get<RunList>(`/api/runs?${query}`, signal),
    placeholderData: (before) => before,
    gcTime: KEPT_MS,
    refetchInterval: ({ state }) => (state.data?.items.some((run) => run.state === "running") ? GOING_MS : false),
  });
}

const COURSES_MS = 30_000;
const MOST_COURSES = 100; // in one request
type Courses = Record<string, (number | null)[]>;

/** The utilisation of runs over their time, asked for in portions until all have been read. */
export function useCourses(ids: string[], going: boolean): Courses {
  const parts = Array.from({ length: Math.ceil(ids.length / MOST_COURSES) }, (_, place) => ids.slice(place * MOST_COURSES, (place + 1) * MOST_COURSES));
  const found = useQueries({ queries: parts.map((part) => ({
    queryKey: ["courses", ...part],
    queryFn: async ({ signal }: { signal: AbortSignal }) => {
      const all: Courses = {};
      for (let left = part; left.length;) {
        const some = await get<RunCourses>(`/api/run-courses?runs=${left.map(encodeURIComponent).join(",")}`, signal);
        Object.assign(all, some.runs);
        left = some.left < left.length ? left.slice(left.length - some.left) : [];
      }
      return all;
    },
    placeholderData: (before: Courses | undefined) => before,
    refetchInterval: going ? COURSES_MS : (false as const),
  })) });
  return Object.assign({}, ...found.map((one) => one.data ?? {})) as Courses;
}

/** These runs; those that go on are followed. */
export function useRunsOf(ids: string[]): Found<RunDetails>[] {
  const found = useQueries({ queries: ids.map((id) => ({
    queryKey: ["run", id],
    queryFn: ({ signal }: { signal: AbortSignal }) => get<RunDetails>(`/api/runs/${encodeURIComponent(id)}`, signal),
    // a long record is read piece by piece
    refetchInterval: ({ state }: { state: { data?: RunDetails | undefined } }) => (state.data && state.data.read.bytes < state.data.read.of_bytes ? READING_MS : false),
  })) }) as Found<RunDetails>[];
  const going = found.flatMap((one, place) => (one.data?.state === "running" ? [ids[place] as string] : [])).join();
  useEffect(() => {
    const left = going.split(",").filter(Boolean).map((id) => follow<RunUpdate>(`run ${id}`, (news) => heard(id, news)));
    return () => left.forEach((leave) => leave());
  }, [going]);
  return found;
}

function heard(id: string, news: RunUpdate): void {
  const before = client.getQueryData<RunDetails>(["run", id]);
  if (!before) return;
  const next = withNews(before, news);
  if (next) client.setQueryData(["run", id], next);
  else void client.invalidateQueries({ queryKey: ["run", id] });
  if (news.marks.length) {
    client.setQueryData<RunMarks>(["run-marks", id], (known) => known && { ...known, items: [...known.items, ...news.marks.filter((one) => one.at > (known.items.at(-1)?.at ?? -1))] });
  }
}

export function useMarks(id: string, there: boolean): Found<RunMarks> {
  return useQuery<RunMarks, Problem>({
    queryKey: ["run-marks", id],
    queryFn: ({ signal }) => get<RunMarks>(`/api/runs/${encodeURIComponent(id)}/events`, signal),
    enabled: there,
  });
}

/** Saves the record; a plain link would not carry the session's secret. */
export async function download(id: string): Promise<Problem | null> {
  let answer: Response;
  try {
    answer = await fetch(`/api/runs/${encodeURIComponent(id)}/record`, { cache: "no-store", headers: bearer() });
  } catch {
    return new Problem(0, "the server is not responding", "is andon serve running?");
  }
  if (!answer.ok) return new Problem(answer.status, (await answer.json().catch(() => null))?.error?.reason ?? `the server answered ${answer.status}`, "andon open");
  const named = /filename\*=UTF-8''([^;]+)/.exec(answer.headers.get("Content-Disposition") ?? "")?.[1];
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = decodeURIComponent(named ?? `${id}.jsonl`);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  return null;
}
