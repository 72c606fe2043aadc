/** What the server itself is asked, on the pages of any node. */
import { useSyncExternalStore } from "react";
import { useQuery } from "@tanstack/react-query";
import { NODE } from "../lib/node";
import { type Found, useAsked, useFeatures } from "./asking";
import { NODE_NEWS } from "./news";
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
/** `follows`: with every change; on a page of a node nothing is pushed. */
export function useNodes(follows: boolean): Found<NodeList> {
  const when = useFeatures(null)["nodes"] ?? (NODE !== null || location.hash.startsWith("#/fleet")); // at once where it is asked for
  const pushed = follows && NODE === null ? { news: NODE_NEWS } : { every: follows && 10_000 };
  return useAsked<NodeList>({ path: "/api/nodes", when, shared: false, ...pushed }, null); // every age is new each time
}
