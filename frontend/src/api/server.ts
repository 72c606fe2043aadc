/** What the server itself is asked, on the pages of any node. */
import { useSyncExternalStore } from "react";
import { useQuery } from "@tanstack/react-query";
import { NODE } from "../lib/node";
import { type Found, KEPT_MS, useAllAsked, useAsked, useFeatures } from "./asking";
import { NODE_NEWS } from "./news";
import { accessChanges, get, onAccess, Problem } from "./client";
import type { EstimateNames, FleetItems, Health, NodeCourses, NodeList, Session } from "./types";

/** Who this browser is here, and what it may do. A key that is refused is forgotten by then. */
export function useSession(): Session | undefined {
  const changes = useSyncExternalStore(onAccess, accessChanges);
  return useQuery<Session, Problem>({
    queryKey: ["session", changes],
    queryFn: async ({ signal }) => {
      try {
        return await get<Session>("/api/session", null, signal);
      } catch (error) {
        if (error instanceof Problem && error.status === 401) return get<Session>("/api/session", null, signal);
        throw error;
      }
    },
    refetchInterval: 60_000,
  }).data;
}

export function useHealth(every = 3_000): Found<Health> {
  return useAsked<Health>({ path: "/api/health", every }, null);
}

export function useEstimateNames(): EstimateNames | undefined {
  return useAsked<EstimateNames>({ path: "/api/estimate", fresh: Infinity }, null).data;
}

/** The nodes of a hub; not asked for anywhere else. `follows`: with every change; on a page of a node nothing is pushed. */
export function useNodes(follows: boolean): Found<NodeList> {
  const when = useFeatures(null)["nodes"] ?? (NODE !== null || location.hash.startsWith("#/fleet")); // at once where it is asked for
  const pushed = follows && NODE === null ? { news: NODE_NEWS } : { every: follows && 10_000 };
  return useAsked<NodeList>({ path: "/api/nodes", when, shared: false, ...pushed }, null); // every age is new each time
}

/** What all nodes of a hub have, a page of lines; nothing of it is pushed. */
export function useItems(query: URLSearchParams, when = true): Found<FleetItems> {
  return useAsked<FleetItems>({ path: `/api/nodes/items?${query}`, every: (known) => (known?.unread.length ? 2_000 : 15_000), when, kept: KEPT_MS, meanwhile: () => true }, null);
}

/** Whether a page is about the hub's own machine: its nodes have more of the same. */
export const useHub = (): boolean => (useFeatures()["nodes"] ?? false) && NODE === null;

const TOGETHER = 100;
const COURSES_MS = 600_000;

/** One reading of the last day of these nodes, by name. They are asked for with their neighbours, so that an answer serves every order of the list. */
export function useDays(all: string[], shown: ReadonlySet<string>, metric = "utilization_percent"): { at: Pick<NodeCourses, "since" | "until"> | null; of: Map<string, (number | null)[]> } {
  const parts: string[][] = [];
  for (let first = 0; first < all.length; first += TOGETHER) parts.push(all.slice(first, first + TOGETHER));
  const asked = parts.filter((part) => part.some((one) => shown.has(one)));
  const found = useAllAsked(asked.map((part) => ({ path: `/api/nodes/courses?metric=${metric}&nodes=${part.map(encodeURIComponent).join(",")}`, every: COURSES_MS, fresh: COURSES_MS, kept: KEPT_MS })), null) as Found<NodeCourses>[];
  const first = found.find((one) => one.data)?.data;
  return { at: first ?? null, of: new Map(found.flatMap((one) => Object.entries(one.data?.nodes ?? {}))) };
}
