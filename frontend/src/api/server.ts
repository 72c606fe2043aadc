/** What the server itself is asked, on the pages of any node. */
import { useSyncExternalStore } from "react";
import { useQuery } from "@tanstack/react-query";
import { NODE } from "../lib/node";
import { type Found, useAsked, useFeatures } from "./asking";
import { accessChanges, get, onAccess, Problem } from "./client";
import type { EstimateNames, Health, NodeList, Session } from "./types";

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

/** The nodes of a hub; not asked for anywhere else. */
export function useNodes(every: number | false): Found<NodeList> {
  const when = useFeatures(null)["nodes"] ?? (NODE !== null || location.hash.startsWith("#/fleet")); // at once where it is asked for
  return useAsked<NodeList>({ path: "/api/nodes", every, when, shared: false }, null); // every age is new each time
}
