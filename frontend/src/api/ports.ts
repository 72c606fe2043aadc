/** The ports of a node: what each can be asked, and one hook for each. The sixth, `useLive`, is in live/store.ts. */
import { useMemo } from "react";
import { useTrusted } from "../lib/access";
import { jobPath } from "../lib/jobs";
import { NODE } from "../lib/node";
import type { Use } from "../lib/people";
import { type Work, workOf } from "../lib/progress";
import { type Found, KEPT_MS, type Question, useAsked } from "./asking";
import { JOB_NEWS, LATEST_ALERTS, RUN_NEWS } from "./news";
import type { Alert, Alerts, Board, ChangeList, Charts, CheckList, Job, JobPage, Leases, NodeCharts, NoteList, Rules, RunDetails, RunList, RunMarks, Snapshot, Usage, Week, Why } from "./types";

const coded = encodeURIComponent;
const MINUTE_MS = 60_000;

export interface Span {
  since: number;
  until: number;
}

const spanOf = (uuid: string, what: string, { since, until }: Span): string => `/api/devices/${coded(uuid)}/${what}?since=${since}&until=${until}`;

const ALERTS = {
  /** Live events keep the list up to date; the alerts page also polls. */
  latest: (every: number | false = 15_000): Question<Alerts> => ({ path: LATEST_ALERTS, every, needs: "alerts" }),
  since: (since: number): Question<Alerts> => ({ path: `/api/alerts?since=${since}&limit=500`, needs: "alerts", when: since > 0, meanwhile: () => true }),
  one: (id: string): Question<Alert> => ({ path: `/api/alerts/${coded(id)}` }),
  rules: (): Question<Rules> => ({ path: "/api/alerts/rules", fresh: MINUTE_MS }),
  /** Alerts arrive live. The text of a lit lamp has figures, which become outdated. */
  lamps: (): Question<Board> => ({ path: "/api/board", every: (known) => (known && known.lamp !== "green" ? 3_000 : 5_000), needs: "alerts" }),
  why: (uuid: string): Question<Why> => ({ path: `/api/devices/${coded(uuid)}/why`, every: 5_000 }),
};

const LEASES = {
  all: (): Question<Leases> => ({ path: "/api/leases", every: 10_000 }),
};

const PAST = {
  charts: (uuid: string, span: Span, points: number, metrics: string[], when = true): Question<Charts> => ({
    path: `${spanOf(uuid, "charts", span)}&points=${points}&metrics=${metrics.join(",")}`, when, kept: 10_000, meanwhile: (before) => before.device === uuid,
  }),
  /** One reading of every device. */
  reading: (metric: string, span: Span, points: number, when = true): Question<NodeCharts> => ({
    path: `/api/charts?metric=${metric}&since=${span.since}&until=${span.until}&points=${points}`, when, kept: 10_000, meanwhile: (before) => before.metric === metric,
  }),
  usage: (uuid: string, span: Span): Question<Usage> => ({ path: spanOf(uuid, "usage", span), kept: 10_000, meanwhile: (before) => before.device === uuid }),
  /** What changed most against the range before. */
  changes: (uuid: string, { since, until }: Span, when: boolean): Question<ChangeList> => ({ path: `/api/history/changes?device=${coded(uuid)}&since=${since}&until=${until}`, when, kept: 10_000 }),
  /** Of a device and the node, or of all. */
  notes: (uuid: string | null, { since, until }: Span): Question<NoteList> => ({
    path: `/api/history/notes?since=${since}&until=${until}${uuid === null ? "" : `&device=${coded(uuid)}`}`, kept: 10_000, meanwhile: () => true, every: MINUTE_MS,
  }),
  usageSince: (since: number, when: boolean): Question<{ items: Use[] }> => ({ path: `/api/usage?since=${since}`, every: MINUTE_MS, when }),
  checks: (uuid: string): Question<CheckList> => ({ path: `/api/checks?device=${coded(uuid)}`, every: MINUTE_MS }),
  users: (): Question<Week> => ({ path: "/api/users", every: MINUTE_MS }),
  /** The same figures by month; the last one grows slowly. */
  months: (by: "user" | "group", since: number): Question<Week> => ({ path: `/api/users?each=month&by=${by}&since=${since}`, fresh: 10 * MINUTE_MS }),
  snapshots: (when: boolean): Question<{ items: Snapshot[] }> => ({ path: "/api/snapshots", fresh: Infinity, kept: 0, when }),
};

export const RUNS = {
  list: (query: string): Question<RunList> => ({
    path: `/api/runs?${query}`, kept: KEPT_MS, meanwhile: () => true, news: RUN_NEWS, every: (known) => known?.items.some((run) => run.state === "running") ? 10_000 : false,
  }),
  latest: (how: Pick<Question<RunList>, "every" | "fresh">): Question<RunList> => ({ path: "/api/runs?limit=100", needs: "runs", ...how }),
  going: (when: boolean): Question<RunList> => ({ path: "/api/runs?state=running&limit=100", needs: "runs", when, every: 10_000 }),
  /** A long record is read piece by piece. */
  one: (id: string): Question<RunDetails> => ({ path: `/api/runs/${coded(id)}`, every: (known) => (known && known.read.bytes < known.read.of_bytes ? 400 : false) }),
  marks: (id: string, when = true): Question<RunMarks> => ({ path: `/api/runs/${coded(id)}/events`, when }),
};

/** Reasons and expected starts change without an event where no server follows. */
const JOBS_MS = 15_000;
const JOBS = {
  list: (state: string, needs?: string): Question<JobPage> => ({
    path: `/api/jobs?state=${state}&limit=500`, every: JOBS_MS, kept: KEPT_MS, meanwhile: () => true, news: JOB_NEWS, ...(needs && { needs }),
  }),
  latest: (fresh: number): Question<JobPage> => ({ path: "/api/jobs?limit=100", needs: "jobs", fresh }),
  one: (number: string, user: string): Question<Job> => ({ path: jobPath(number, user), every: JOBS_MS, kept: KEPT_MS, news: JOB_NEWS }),
};

/** `useAlerts((alerts) => alerts.one(id), "n17")`: of the page's node unless one is named; null is the server's own. */
type Port<Questions> = <T>(pick: (questions: Questions) => Question<T>, node?: string | null) => Found<T>;

const port = <Questions>(questions: Questions): Port<Questions> => (pick, node = NODE) => useAsked(pick(questions), node);

export const useAlerts = port(ALERTS);
export const useLeases = port(LEASES);
export const usePast = port(PAST);
export const useRuns = port(RUNS);
export const useJobs = port(JOBS);

const NO_WORK: { at: number; of: Map<string, Work[]> } = { at: 0, of: new Map() };

/** How far the work on each device is, and when that was; only those who signed in are told, and of an idle machine nothing is asked. */
export function useWork(busy: boolean, node: string | null = NODE): typeof NO_WORK {
  const when = useTrusted() && busy;
  const { data } = useRuns((runs) => runs.going(when), node);
  return useMemo(() => (when && data ? { at: Date.now() / 1000, of: workOf(data.items) } : NO_WORK), [when, data]);
}
