/** The live connection: subscribes, and reconnects automatically with growing delays. */
import { io } from "socket.io-client";
import type { Alert, Snapshot } from "../api/types";
import { bearer, forget, onAccess, secret } from "../api/client";
import { fetchInitial } from "./asked";
import type { LiveStore } from "./store";

const FIRST_DELAY_MS = 500;
const MAX_DELAY_MS = 10_000;

/** A browser cannot send a token with a WebSocket: beyond loopback, polling has to connect first. */
function transports(): string[] {
  const home = /^(localhost|127\..*|\[::1\])$/.test(location.hostname);
  return home ? ["websocket", "polling"] : ["polling", "websocket"];
}

/** What parts of the page follow besides the snapshots, while they are shown. */
const followed = new Map<string, { heard: (news: never) => void; count: number }>();
let ask: (what: "subscribe" | "unsubscribe", topic: string) => void = () => undefined;

/** Subscribes to a topic, also after a reconnect; whoever follows it does the same with its news, which happens once. */
export function follow<T>(topic: string, heard: (news: T) => void): () => void {
  const one = followed.get(topic) ?? { heard, count: 0 };
  followed.set(topic, one);
  one.count += 1;
  if (one.count === 1) ask("subscribe", topic);
  return () => {
    one.count -= 1;
    if (one.count || !followed.delete(topic)) return;
    ask("unsubscribe", topic);
  };
}

const heard = (topic: string, news: unknown) => followed.get(topic)?.heard(news as never);

export function connect(live: LiveStore, onAlert: (alert: Alert) => void, onLeases: () => void, onReturn: () => void): void {
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
  socket.on("nodes", (news: unknown) => heard("nodes", news));
  socket.on("runs", (news: unknown) => heard("runs", news));
  onAccess(() => {
    socket.io.opts.extraHeaders = carried();
    if (socket.connected) socket.disconnect().connect();
    if (secret() && !live.get().snapshot) void fetchInitial(null, live);
  });
  setInterval(() => live.tick(), 1000);
  void fetchInitial(null, live);
}
