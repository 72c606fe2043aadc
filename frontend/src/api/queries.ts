/** What is asked of the server, and how often. */
import { QueryClient, useQuery, type UseQueryResult } from "@tanstack/react-query";
import { get, Problem } from "./client";
import type { Alert, Alerts, Board, Charts, Features, Health, Leases, Rules, Usage, Why } from "./types";

export const client = new QueryClient({
  defaultOptions: {
    queries: {
      networkMode: "always", // a machine without a network still has itself
      refetchOnWindowFocus: false,
      retry: (failures, error) => failures < 2 && !(error instanceof Problem && error.status in REFUSED),
      gcTime: 60_000,
    },
    mutations: { networkMode: "always" },
  },
});
const REFUSED: Record<number, true> = { 401: true, 403: true, 404: true, 422: true };

type Found<T> = UseQueryResult<T, Problem>;

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
    // Alerts come by themselves. While a lamp is lit its words have figures, which grow old.
    refetchInterval: ({ state }) => (state.data && state.data.lamp !== "green" ? 3_000 : 15_000),
  }).data;
}

/** Live events keep the list up to date; a page that is about it asks now and then all the same. */
export function useAlerts(everyMs: number | false = 15_000): Found<Alerts> {
  const there = useFeatures()["alerts"] === true;
  return useQuery<Alerts, Problem>({
    queryKey: ["alerts"],
    queryFn: ({ signal }) => get<Alerts>("/api/alerts?limit=200", signal),
    enabled: there,
    refetchInterval: everyMs,
  });
}

export function useRules(): Found<Rules> {
  return useQuery<Rules, Problem>({
    queryKey: ["rules"],
    queryFn: ({ signal }) => get<Rules>("/api/alerts/rules", signal),
    staleTime: 60_000,
  });
}

export function useHealth(): Found<Health> {
  return useQuery<Health, Problem>({
    queryKey: ["health"],
    queryFn: ({ signal }) => get<Health>("/api/health", signal),
    refetchInterval: 3_000,
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

export function useCharts(uuid: string, span: Span, points: number): Found<Charts> {
  return useQuery<Charts, Problem>({
    queryKey: ["charts", uuid, span.since, span.until, points],
    queryFn: ({ signal }) => get<Charts>(`${spanOf(uuid, "charts", span)}&points=${points}`, signal),
    placeholderData: (before) => (before?.device === uuid ? before : undefined),
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

export interface Items {
  items: Record<string, unknown>[];
  note?: string | null;
}

export function useItems(what: string): Found<Items> {
  return useQuery<Items, Problem>({
    queryKey: ["items", what],
    queryFn: ({ signal }) => get<Items>(`/api/${what}`, signal),
    refetchInterval: 5_000,
  });
}

const SOON_MS = 100;

/** Asks anew soon, and in a storm of changes only so often and not once for each. */
function spaced(apartMs: number, ...keys: string[]): () => void {
  let asked = 0;
  let asking: ReturnType<typeof setTimeout> | undefined;
  const ask = () => {
    asking = undefined;
    asked = Date.now();
    for (const key of keys) void client.invalidateQueries({ queryKey: [key] });
  };
  return () => {
    asking ??= setTimeout(ask, Math.max(SOON_MS, asked + apartMs - Date.now()));
  };
}

const askAlerts = spaced(5_000, "board", "alerts");

/** One alert changed: put it in its place at once, and let the server tell the rest. */
export function onAlert(alert: Alert): void {
  client.setQueryData<Alerts>(["alerts"], (before) => {
    if (!before) return before;
    const others = before.alerts.filter((one) => one.id !== alert.id);
    return { ...before, alerts: [alert, ...others] };
  });
  askAlerts();
}

/** The book changed; what is shown of it is asked for with the session's own rights. */
export const onLeases = spaced(2_000, "leases", "board");

/** After a pause everything may be different. */
export function onReturn(): void {
  void client.invalidateQueries();
}
