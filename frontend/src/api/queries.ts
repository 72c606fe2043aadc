/** The queries to the server, and how often they run. */
import { useSyncExternalStore } from "react";
import { QueryClient, useQuery, type UseQueryResult } from "@tanstack/react-query";
import { NODE } from "../lib/node";
import { type Work, workOf } from "../lib/progress";
import { accessChanges, get, onAccess, Problem, secret } from "./client";
import type { Alert, Alerts, Board, Charts, Features, Health, Leases, NodeCharts, NodeList, Rules, RunList, Session, Usage, Why } from "./types";

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
const REFUSED: Record<number, true> = { 401: true, 403: true, 404: true, 422: true };

type Found<T> = UseQueryResult<T, Problem>;

/** Who this browser is here, and what it may do. A key that is refused is forgotten by then. */
export function useSession(): Session | undefined {
  const changes = useSyncExternalStore(onAccess, accessChanges);
  return useQuery<Session, Problem>({
    queryKey: ["session", changes],
    queryFn: async ({ signal }) => {
      try {
        return await get<Session>("/api/session", signal);
      } catch (error) {
        if (error instanceof Problem && error.status === 401) return get<Session>("/api/session", signal);
        throw error;
      }
    },
    refetchInterval: 60_000,
  }).data;
}
// Whoever signs in or out sees something else.
onAccess(() => void client.cancelQueries().then(() => client.invalidateQueries()));

export function useFeatures(): Record<string, boolean> {
  const found = useQuery<Features, Problem>({
    queryKey: ["features"],
    queryFn: ({ signal }) => get<Features>("/api/features", signal),
    staleTime: 300_000,
  });
  return found.data?.features ?? {};
}

export function useBoard(): Board | undefined {
  const there = useFeatures()["alerts"] === true;
  return useQuery<Board, Problem>({
    queryKey: ["board"],
    queryFn: ({ signal }) => get<Board>("/api/board", signal),
    enabled: there,
    // Alerts arrive live. The text of a lit lamp has figures, which become outdated.
    refetchInterval: ({ state }) => (state.data && state.data.lamp !== "green" ? 3_000 : 5_000),
  }).data;
}

/** Live events keep the list up to date; the alerts page also polls. */
export function useAlerts(everyMs: number | false = 15_000): Found<Alerts> {
  const there = useFeatures()["alerts"] === true;
  return useQuery<Alerts, Problem>({
    queryKey: ["alerts"],
    queryFn: ({ signal }) => get<Alerts>("/api/alerts?limit=200", signal),
    enabled: there,
    refetchInterval: everyMs,
  });
}

const NOTHING: { at: number; of: Map<string, Work[]> } = { at: 0, of: new Map() };

/** How far the work on each device is, and when that was; only those who signed in are told, and of an idle machine nothing is asked. */
export function useWork(busy: boolean): typeof NOTHING {
  const there = useFeatures()["runs"] === true;
  const trusted = useSyncExternalStore(onAccess, secret) !== null;
  const found = useQuery<RunList, Problem, typeof NOTHING>({
    queryKey: ["runs", "work"],
    queryFn: ({ signal }) => get<RunList>("/api/runs?state=running&limit=100", signal),
    select: workNow,
    enabled: there && trusted && busy,
    refetchInterval: 10_000,
  });
  return (there && trusted && busy && found.data) || NOTHING;
}

function workNow(list: RunList): typeof NOTHING {
  return { at: Date.now() / 1000, of: workOf(list.items) };
}

/** One alert, current or past. */
export function useAlert(id: string): Found<Alert> {
  return useQuery<Alert, Problem>({
    queryKey: ["alerts", "one", id],
    queryFn: ({ signal }) => get<Alert>(`/api/alerts/${encodeURIComponent(id)}`, signal),
  });
}

export function useRules(): Found<Rules> {
  return useQuery<Rules, Problem>({
    queryKey: ["rules"],
    queryFn: ({ signal }) => get<Rules>("/api/alerts/rules", signal),
    staleTime: 60_000,
  });
}

export function useHealth(every = 3_000): Found<Health> {
  return useQuery<Health, Problem>({
    queryKey: ["health"],
    queryFn: ({ signal }) => get<Health>("/api/health", signal),
    refetchInterval: every,
  });
}

export function useWhy(uuid: string): Found<Why> {
  return useQuery<Why, Problem>({
    queryKey: ["why", uuid],
    queryFn: ({ signal }) => get<Why>(`/api/devices/${encodeURIComponent(uuid)}/why`, signal),
    refetchInterval: 5_000,
  });
}

export interface Span {
  since: number;
  until: number;
}

function spanOf(uuid: string, what: string, span: Span): string {
  return `/api/devices/${encodeURIComponent(uuid)}/${what}?since=${span.since}&until=${span.until}`;
}

export function useCharts(uuid: string, span: Span, points: number, metrics: string[], enabled = true): Found<Charts> {
  const wanted = metrics.join(",");
  return useQuery<Charts, Problem>({
    queryKey: ["charts", uuid, span.since, span.until, points, wanted],
    queryFn: ({ signal }) => get<Charts>(`${spanOf(uuid, "charts", span)}&points=${points}&metrics=${wanted}`, signal),
    placeholderData: (before) => (before?.device === uuid ? before : undefined),
    enabled,
    gcTime: 10_000,
  });
}

/** One reading of every device. */
export function useNodeCharts(metric: string, span: Span, points: number, enabled = true): Found<NodeCharts> {
  return useQuery<NodeCharts, Problem>({
    queryKey: ["node-charts", metric, span.since, span.until, points],
    queryFn: ({ signal }) => get<NodeCharts>(`/api/charts?metric=${metric}&since=${span.since}&until=${span.until}&points=${points}`, signal),
    placeholderData: (before) => (before?.metric === metric ? before : undefined),
    enabled,
    gcTime: 10_000,
  });
}

export function useUsage(uuid: string, span: Span): Found<Usage> {
  return useQuery<Usage, Problem>({
    queryKey: ["usage", uuid, span.since, span.until],
    queryFn: ({ signal }) => get<Usage>(spanOf(uuid, "usage", span), signal),
    placeholderData: (before) => (before?.device === uuid ? before : undefined),
    gcTime: 10_000,
  });
}

export function useLeases(): Found<Leases> {
  return useQuery<Leases, Problem>({
    queryKey: ["leases"],
    queryFn: ({ signal }) => get<Leases>("/api/leases", signal),
    refetchInterval: 10_000,
  });
}

/** The nodes of a hub; not asked for anywhere else. */
export function useNodes(everyMs: number | false): Found<NodeList> {
  const hub = useFeatures()["nodes"];
  const there = hub === true || NODE !== null || (hub === undefined && location.hash.startsWith("#/fleet")); // at once where it is asked for
  return useQuery<NodeList, Problem>({
    queryKey: ["nodes"],
    queryFn: ({ signal }) => get<NodeList>("/api/nodes", signal),
    enabled: there,
    refetchInterval: everyMs,
    structuralSharing: false, // every age is new each time
  });
}

const SOON_MS = 100;

/** Refreshes soon after a change, and at most once per interval during a burst of changes. */
function throttledRefresh(intervalMs: number, ...keys: string[]): () => void {
  let refreshed = 0;
  let pending: ReturnType<typeof setTimeout> | undefined;
  const refresh = () => {
    pending = undefined;
    refreshed = Date.now();
    for (const key of keys) void client.invalidateQueries({ queryKey: [key] });
  };
  return () => {
    pending ??= setTimeout(refresh, Math.max(SOON_MS, refreshed + intervalMs - Date.now()));
  };
}

const refreshAlerts = throttledRefresh(5_000, "board", "alerts");

/** One alert changed: update it at once, then refresh the rest. */
export function onAlert(alert: Alert): void {
  client.setQueryData<Alerts>(["alerts"], (before) => {
    if (!before) return before;
    const others = before.alerts.filter((one) => one.id !== alert.id);
    return { ...before, alerts: [alert, ...others] };
  });
  refreshAlerts();
}

/** Leases changed; they are fetched with the session's own rights. */
export const onLeases = throttledRefresh(2_000, "leases", "board");

/** A node of a hub has reported again: nothing of it is pushed. */
export const onReport = throttledRefresh(4_000, "board", "alerts", "leases", "jobs", "job");

/** After a reconnect everything may have changed. */
export function onReturn(): void {
  void client.invalidateQueries();
}
