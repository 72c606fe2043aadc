/** The live connection: subscribes, and comes back by itself with growing pauses. */
import { io } from "socket.io-client";
import type { Alert, Recent, Snapshot } from "../api/types";
import { bearer, forget, get, onAccess, Problem, secret } from "../api/client";
import { live } from "./store";

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;

/** A browser cannot show a key with a WebSocket: on another address polling has to open the door. */
function transports(): string[] {
  const home = /^(localhost|127\..*|\[::1\])$/.test(location.hostname);
  return home ? ["websocket", "polling"] : ["polling", "websocket"];
}

export function connect(onAlert: (alert: Alert) => void, onLeases: () => void, onReturn: () => void): void {
  const socket = io({
    transports: transports(),
    tryAllTransports: true,
    auth: (give) => give({ token: secret() ?? undefined }),
    extraHeaders: bearer(),
    reconnectionDelay: FIRST_PAUSE_MS,
    reconnectionDelayMax: LONGEST_PAUSE_MS,
  });
  let attempt = 0;
  let wasLive = false;

  const away = (reason: string) => live.linked({ state: "away", attempt, reason });
  socket.on("connect", () => {
    attempt = 0;
    live.linked({ state: "live" });
    socket.emit("subscribe", "snapshot", () => undefined);
    if (wasLive) onReturn();
    wasLive = true;
  });
  socket.on("disconnect", (reason) => {
    away(reason === "io server disconnect" ? "the server ended the connection" : "the connection broke");
    if (reason === "io server disconnect") socket.connect();
  });
  socket.on("connect_error", (error) => {
    if (error.message.includes("token")) {
      forget();
      if (!socket.active) setTimeout(() => socket.connect(), FIRST_PAUSE_MS);
    }
    away("the server does not answer");
  });
  socket.io.on("reconnect_attempt", (number) => {
    attempt = number;
    socket.io.opts.extraHeaders = bearer();
    away("the server does not answer");
  });
  socket.on("snapshot", (snapshot: Snapshot) => live.heard(snapshot));
  socket.once("snapshot", () => performance.mark("andon live"));
  socket.on("alert", onAlert);
  socket.on("leases", onLeases);
  onAccess(() => {
    socket.io.opts.extraHeaders = bearer();
    if (socket.connected) socket.disconnect().connect();
    if (secret() && !live.get().snapshot) void firstLook();
  });
  setInterval(() => live.tick(), 1000);
}

/** What can be shown before the first live event: the page must not wait a tick for it. */
export async function firstLook(): Promise<void> {
  try {
    const snapshot = await get<Snapshot>("/api/snapshot");
    live.heard(snapshot);
    live.rings.seed(await get<Recent>("/api/recent"));
    live.heard({ ...snapshot, devices: snapshot.devices.map((device) => ({ ...device })) }); // drawn again, with its past
  } catch (error) {
    if (error instanceof Problem && error.status === 401) live.refused("Nothing is shown without the token: run andon open");
    else if (error instanceof Problem) live.refused(error.reason);
  }
}
