/** Live data that is asked for: what can be shown before the first event, and the nodes of a hub, of which nothing is pushed. */
import { get, Problem } from "../api/client";
import type { Recent, Snapshot } from "../api/types";
import { HOURS_SECONDS } from "./hours";
import type { LiveStore } from "./store";

const POLL_MS = 3_000;

const nothing = () => undefined;

/** A node reports every 5 s, and what it reported last is asked for. Returns what ends this. */
export function poll(node: string | null, store: LiveStore, onReport: () => void = nothing, onReturn: () => void = nothing): () => void {
  let [attempt, at, ended] = [0, 0, false];
  let next: ReturnType<typeof setTimeout>;
  const look = async () => {
    try {
      const snapshot = await get<Snapshot>("/api/snapshot", node);
      store.linked({ state: "live" });
      store.received(snapshot);
      if (attempt) onReturn();
      else if (snapshot.at !== at) onReport();
      [attempt, at] = [0, snapshot.at];
    } catch (error) {
      attempt += 1;
      const reason = error instanceof Problem ? error.oneLine : "the hub is not responding";
      if (store.get().snapshot) store.linked({ state: "away", attempt, reason });
      else store.refused(reason);
    }
    if (!ended) next = setTimeout(() => void look(), POLL_MS);
  };
  next = setTimeout(() => void look(), POLL_MS);
  void fetchInitial(node, store);
  const ticks = setInterval(() => store.tick(), 1000);
  return () => {
    ended = true;
    clearTimeout(next);
    clearInterval(ticks);
  };
}

/** The readings, then the lines of the tiles. */
export async function fetchInitial(node: string | null, store: LiveStore): Promise<void> {
  try {
    const snapshot = await get<Snapshot>("/api/snapshot", node);
    store.received(snapshot);
    if (node !== null) store.linked({ state: "live" });
    const again = () => store.received({ ...snapshot, devices: snapshot.devices.map((device) => ({ ...device })) }); // rendered again, with its history
    const long = await get<Recent>(`/api/recent?seconds=${HOURS_SECONDS}`, node).catch(() => null);
    if (long) store.hours.seed(long);
    if (store.hours.enough) again();
    for (const more of store.hours.enough ? [""] : ["", "?seconds=300"]) {
      store.rings.seed(await get<Recent>(`/api/recent${more}`, node));
      if (!store.hours.enough) again();
    }
  } catch (error) {
    if (error instanceof Problem && error.status === 401) store.refused("Sign in to see this board: run andon open");
    else if (error instanceof Problem) store.refused(error.reason);
  }
}
