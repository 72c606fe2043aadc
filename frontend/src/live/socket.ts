/** The live connection: subscribes, and reconnects automatically with growing delays. */
import { io } from "socket.io-client";
import type { Alert, Recent, Snapshot } from "../api/types";
import { bearer, forget, get, onAccess, Problem, secret } from "../api/client";
import { HOURS_SECONDS } from "./hours";
import { NODE } from "../lib/node";
import { live } from "./store";

const FIRST_DELAY_MS = 500;
const MAX_DELAY_MS = 10_000;

/** A browser cannot send a token with a WebSocket: beyond loopback, polling has to connect first. */
function transports(): string[] {
  const home = /^(localhost|127\..*|\[::1\])$/.test(location.hostname);
  return home ? ["websocket", "polling"] : ["polling", "websocket"];
}

/** What parts of the page follow besides the snapshots, while they are shown. */
const followed = new Map<string, Set<(news: never) => void>>();
let ask: (what: "subscribe" | "unsubscribe", topic: string) => void = () => undefined;

/** Subscribes to a topic, also after a reconnect. */
export function follow<T>(topic: string, listener: (news: T) => void): () => void {
  const listeners = followed.get(topic) ?? new Set();
  followed.set(topic, listeners.add(listener));
  if (listeners.size === 1) ask("subscribe", topic);
  return () => {
    listeners.delete(listener);
    if (listeners.size || !followed.delete(topic)) return;
    ask("unsubscribe", topic);
  };
}

const heard = (topic: string, news: unknown) => followed.get(topic)?.forEach((listener) => listener(news as never));

export function connect(onAlert: (alert: Alert) => void, onLeases: () => void, onReturn: () => void): void {
  let sent: string | null = null;
  const carried = () => {
    sent = secret();
    return bearer();
  };
  const socket = io({
    transports: transports(),
    tryAllTransports: true,
    auth: (give) => give({ token: (sent = secret()) ?? undefined }),
    extraHeaders: carried(),
    reconnectionDelay: FIRST_DELAY_MS,
    reconnectionDelayMax: MAX_DELAY_MS,
  });
  let attempt = 0;
  let wasLive = false;
  ask = (what, topic) => void (socket.connected && socket.emit(what, topic, () => undefined));

  const away = (reason: string) => live.linked({ state: "away", attempt, reason });
  socket.on("connect", () => {
    attempt = 0;
    live.linked({ state: "live" });
    for (const topic of ["snapshot", ...followed.keys()]) ask("subscribe", topic);
    if (wasLive) onReturn();
    wasLive = true;
  });
  socket.on("disconnect", (reason) => {
    away(reason === "io server disconnect" ? "the server closed the connection" : "the connection was lost");
    if (reason === "io server disconnect") socket.connect();
  });
  socket.on("connect_error", (error) => {
    if (error.message.includes("token")) {
      forget(sent);
      if (!socket.active) setTimeout(() => socket.connect(), FIRST_DELAY_MS);
    }
    away("the server is not responding");
  });
  socket.io.on("reconnect_attempt", (number) => {
    attempt = number;
    socket.io.opts.extraHeaders = carried();
    away("the server is not responding");
  });
  socket.on("snapshot", (snapshot: Snapshot) => live.received(snapshot));
  socket.once("snapshot", () => performance.mark("andon live"));
  socket.on("alert", onAlert);
  socket.on("leases", onLeases);
  socket.on("job", (news: unknown) => heard("jobs", news));
  socket.on("run", (news: { id: string }) => heard(`run ${news.id}`, news));
  socket.on("runs", (news: unknown) => heard("runs", news));
  onAccess(() => {
    socket.io.opts.extraHeaders = carried();
    if (socket.connected) socket.disconnect().connect();
    if (secret() && !live.get().snapshot) void fetchInitial();
  });
  setInterval(() => live.tick(), 1000);
}

const POLL_MS = 3_000;

/** The page of a node of a hub: it reports every 5 s, and what it reported last is asked for. */
export function poll(onReport: () => void, onReturn: () => void): void {
  let [attempt, at] = [0, 0];
  const ask = async () => {
    try {
      const snapshot = await get<Snapshot>("/api/snapshot");
      live.linked({ state: "live" });
      live.received(snapshot);
      if (attempt) onReturn();
      else if (snapshot.at !== at) onReport();
      [attempt, at] = [0, snapshot.at];
    } catch (error) {
      attempt += 1;
      const reason = error instanceof Problem ? error.oneLine : "the hub is not responding";
      if (live.get().snapshot) live.linked({ state: "away", attempt, reason });
      else live.refused(reason);
    }
    setTimeout(() => void ask(), POLL_MS);
  };
  setTimeout(() => void ask(), POLL_MS); // the first one is there already
  setInterval(() => live.tick(), 1000);
}

/** Loads what can be shown before the first live event: the readings, then the lines of the tiles. */
export async function fetchInitial(): Promise<void> {
  try {
    const snapshot = await get<Snapshot>("/api/snapshot");
    live.received(snapshot);
    if (NODE !== null) live.linked({ state: "live" });
    const again = () => live.received({ ...snapshot, devices: snapshot.devices.map((device) => ({ ...device })) }); // rendered again, with its history
    const long = await get<Recent>(`/api/recent?seconds=${HOURS_SECONDS}`).catch(() => null);
    if (long) live.hours.seed(long);
    if (live.hours.enough) again();
    for (const more of live.hours.enough ? [""] : ["", "?seconds=300"]) {
      live.rings.seed(await get<Recent>(`/api/recent${more}`));
      if (!live.hours.enough) again();
    }
  } catch (error) {
    if (error instanceof Problem && error.status === 401) live.refused("Sign in to see this board: run andon open");
    else if (error instanceof Problem) live.refused(error.reason);
  }
}
