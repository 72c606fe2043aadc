/** Runs that are read in pieces or followed, and their records. */
import { useEffect } from "react";
import { client, type Found, keyOf, useAllAsked } from "../../api/asking";
import { bearer, get, Problem } from "../../api/client";
import { RUNS } from "../../api/ports";
import type { RunCourses, RunDetails, RunMarks, RunUpdate } from "../../api/types";
import { below, NODE } from "../../lib/node";
import { follow } from "../../live/socket";
import { withNews } from "./data";

const COURSES_MS = 30_000;
const MOST_COURSES = 100; // in one request
type Courses = Record<string, (number | null)[]>;

/** The utilisation of runs over their time, asked for in portions until all have been read. */
export function useCourses(ids: string[], going: boolean, node: string | null = NODE): Courses {
  const parts = Array.from({ length: Math.ceil(ids.length / MOST_COURSES) }, (_, place) => ids.slice(place * MOST_COURSES, (place + 1) * MOST_COURSES));
  const found = useAllAsked(parts.map((part) => ({ path: coursesPath(part), read: (of: string | null, signal: AbortSignal) => coursesOf(part, of, signal), meanwhile: () => true, every: going && COURSES_MS })), node);
  return Object.assign({}, ...found.map((one) => one.data ?? {})) as Courses;
}

const coursesPath = (ids: string[]): string => `/api/run-courses?runs=${ids.map(encodeURIComponent).join(",")}`;

async function coursesOf(ids: string[], node: string | null, signal: AbortSignal): Promise<Courses> {
  const all: Courses = {};
  for (let left = ids; left.length;) {
    const some = await get<RunCourses>(coursesPath(left), node, signal);
    Object.assign(all, some.runs);
    left = some.left < left.length ? left.slice(left.length - some.left) : [];
  }
  return all;
}

/** These runs; those that go on are followed. */
export function useRunsOf(ids: string[], node: string | null = NODE): Found<RunDetails>[] {
  const found = useAllAsked(ids.map(RUNS.one), node);
  const going = node === null ? found.flatMap((one, place) => (one.data?.state === "running" ? [ids[place] as string] : [])).join() : "";
  useEffect(() => {
    const left = going.split(",").filter(Boolean).map((id) => follow<RunUpdate>(`run ${id}`, (news) => heard(id, news)));
    return () => left.forEach((leave) => leave());
  }, [going]);
  return found;
}

function heard(id: string, news: RunUpdate): void {
  const run = keyOf(RUNS.one(id), null);
  const before = client.getQueryData<RunDetails>(run);
  if (!before) return;
  const next = withNews(before, news);
  if (next) client.setQueryData(run, next);
  else void client.invalidateQueries({ queryKey: run });
  if (news.marks.length) {
    client.setQueryData<RunMarks>(keyOf(RUNS.marks(id), null), (known) => known && { ...known, items: [...known.items, ...news.marks.filter((one) => one.at > (known.items.at(-1)?.at ?? -1))] });
  }
}

/** Saves the record; a plain link would not carry the session's secret. */
export async function download(id: string, node: string | null = NODE): Promise<Problem | null> {
  let answer: Response;
  try {
    answer = await fetch(below(`/api/runs/${encodeURIComponent(id)}/record`, node), { cache: "no-store", headers: bearer() });
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
