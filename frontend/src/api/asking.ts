/** How pages ask: an answer is remembered by its node and address, and live events and changes ask for it again by them. */
import { useEffect } from "react";
import { QueryClient, type UseQueryOptions, useQueries, useQuery, type UseQueryResult } from "@tanstack/react-query";
import { NODE } from "../lib/node";
import { follow } from "../live/socket";
import { get, onAccess, Problem } from "./client";
import type { Features } from "./types";

const REFUSED: Record<number, true> = { 401: true, 403: true, 404: true, 422: true };
export const KEPT_MS = 86_400_000; // the last known is shown while the server is away
const SOON_MS = 100;

export const client = new QueryClient({
  defaultOptions: {
    queries: {
      networkMode: "always", // loopback works without a network
      refetchOnWindowFocus: false,
      retry: (failures, error) => failures < 2 && !(error instanceof Problem && error.status in REFUSED),
      gcTime: 60_000,
    },
    mutations: { networkMode: "always" },
  },
});
// Whoever signs in or out sees something else.
onAccess(() => void client.cancelQueries().then(() => client.invalidateQueries()));

export type Found<T> = UseQueryResult<T, Problem>;

/** What is asked, how often, and which live event changes the answer meanwhile. */
export interface Question<T> {
  path: string;
  /** Milliseconds from one request to the next. */
  every?: number | false | ((known: T | undefined) => number | false);
  /** Milliseconds in which an answer is not asked for again. */
  fresh?: number;
  /** Milliseconds that an answer is remembered for when nobody shows it. */
  kept?: number;
  /** The feature of a node without which nothing is asked. */
  needs?: string;
  /** Whether it is asked at all. */
  when?: boolean;
  /** Whether an earlier answer to a similar question is shown until this one is there. */
  meanwhile?: (before: T) => boolean;
  /** Instead of one request to that path. */
  read?: (node: string | null, signal: AbortSignal) => Promise<T>;
  /** Parts that are equal stay the same objects, unless this is false. */
  shared?: boolean;
  /** The live event; nothing of a hub's nodes is pushed. */
  news?: { topic: string; heard: (news: never) => void };
}

type Key = readonly [node: string | null, path: string];
type Options<T> = UseQueryOptions<T, Problem, T, Key>;

/** Under which an answer is remembered. */
export const keyOf = ({ path }: { path: string }, node: string | null): Key => [node, path];

function optionsOf<T>(question: Question<T>, node: string | null, asked: boolean): Options<T> {
  const { path, every, fresh, kept, meanwhile, shared, read = (to, signal) => get<T>(path, to, signal) } = question;
  return {
    queryKey: keyOf(question, node),
    queryFn: ({ signal }) => read(node, signal),
    enabled: asked,
    ...(every !== undefined && { refetchInterval: typeof every === "function" ? ({ state }) => every(state.data) : every }),
    ...(fresh !== undefined && { staleTime: fresh }),
    ...(kept !== undefined && { gcTime: kept }),
    ...(meanwhile && { placeholderData: ((before: T | undefined) => (before !== undefined && meanwhile(before) ? before : undefined)) as never }),
    ...(shared !== undefined && { structuralSharing: shared }),
  };
}

export function useAsked<T>(question: Question<T>, node: string | null): Found<T> {
  const { needs, when = true, news } = question;
  const features = useFeatures(node, needs !== undefined);
  const asked = when && (needs === undefined || features[needs] === true);
  const topic = asked && node === null ? news?.topic : undefined;
  useEffect(() => (topic && news ? follow(topic, news.heard) : undefined), [topic]);
  return useQuery(optionsOf(question, node, asked));
}

/** Any number of them at once. */
export function useAllAsked<T>(questions: Question<T>[], node: string | null): Found<T>[] {
  return useQueries({ queries: questions.map((one) => optionsOf(one, node, true)) }) as Found<T>[];
}

/** What a node has, and may therefore be asked for. */
export function useFeatures(node: string | null = NODE, asked = true): Record<string, boolean> {
  return useQuery(optionsOf<Features>({ path: "/api/features", fresh: 300_000 }, node, asked)).data?.features ?? NO_FEATURES;
}
const NO_FEATURES: Record<string, boolean> = {};

/** What depends on each other: an answer whose address matches is outdated by a change of it. */
const SUBJECTS = {
  alerts: /^\/api\/(?:board$|alerts(?!\/rules))/,
  leases: /^\/api\/(?:board|leases)$/,
  jobs: /^\/api\/jobs\b/,
  "list of jobs": /^\/api\/jobs\?/,
  "list of runs": /^\/api\/runs\?/,
};
export type Subject = keyof typeof SUBJECTS;

/** Which remembered answers are about it; of one node, or of all. */
export function about(subject: Subject, node?: string | null): { predicate: (query: { queryKey: readonly unknown[] }) => boolean } {
  return { predicate: ({ queryKey: [of, path] }) => (node === undefined || of === node) && SUBJECTS[subject].test(String(path)) };
}

export async function refresh(...subjects: Subject[]): Promise<void> {
  await Promise.all(subjects.map((one) => client.invalidateQueries(about(one))));
}

/** Refreshes soon after a change, and at most once per interval during a burst of changes. */
export function throttledRefresh(intervalMs: number, ...subjects: Subject[]): () => void {
  let refreshed = 0;
  let pending: ReturnType<typeof setTimeout> | undefined;
  const now = () => {
    pending = undefined;
    refreshed = Date.now();
    void refresh(...subjects);
  };
  return () => {
    pending ??= setTimeout(now, Math.max(SOON_MS, refreshed + intervalMs - Date.now()));
  };
}
