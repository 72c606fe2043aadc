/** Requests to the server, with the session's secret if the browser has one. */
import { below } from "../lib/node";

const SECRET = "andon.secret";
const ENDED = "andon.ended";
const SESSION = "/api/session";

/** An error from the server: all of them have this shape. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly reason: string,
    readonly hint: string,
    /** What is wrong with each part, such as each GPU. */
    readonly details: string[] = [],
  ) {
    super(reason);
  }

  /** Reason and hint in one line. */
  get oneLine(): string {
    return [this.reason, this.hint].filter(Boolean).join(": ");
  }
}

let changes = 0;
const listeners = new Set<() => void>();

/** How often this browser has signed in or out. */
export function accessChanges(): number {
  return changes;
}

function changed(): void {
  changes += 1;
  for (const listener of listeners) listener();
}

export function secret(): string | null {
  return sessionStorage.getItem(SECRET);
}

/** Whether there was a session that has ended, for example with the server; also after a reload. */
export function sessionEnded(): boolean {
  return sessionStorage.getItem(ENDED) !== null;
}

export function onAccess(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Ends the session whose secret was refused. An answer to an earlier request says nothing of the present session. */
export function forget(refused: string | null): void {
  if (!refused || refused !== secret()) return;
  sessionStorage.removeItem(SECRET);
  sessionStorage.setItem(ENDED, "1");
  changed();
}

/** Ends this browser's session, here and at the server. */
export async function signOut(): Promise<void> {
  const ended = secret();
  try {
    await send("DELETE", SESSION);
  } catch {
    // The server is away or has ended it already.
  }
  siblings?.postMessage({ ended });
  left();
}

function left(): void {
  sessionStorage.removeItem(SECRET);
  sessionStorage.removeItem(ENDED);
  changed();
}

/** The other tabs of this origin, port included. Nothing of a key is kept anywhere else. */
let siblings: BroadcastChannel | null = null;

/** A new tab is given the session of those that are open, if one is signed in; signing out ends it in all of them. */
export function joinSiblings(): void {
  siblings = new BroadcastChannel(SECRET);
  const me = String(Math.random());
  siblings.onmessage = ({ data }: MessageEvent<{ asks?: string; to?: string; given?: string; ended?: string | null }>) => {
    const key = secret();
    if (data.asks && key) siblings?.postMessage({ to: data.asks, given: key });
    else if (data.given && data.to === me && !key) remember(data.given);
    else if (key && data.ended === key) left();
  };
  if (secret() === null && codeHere() === null) siblings.postMessage({ asks: me });
}

function remember(value: string): void {
  sessionStorage.setItem(SECRET, value);
  sessionStorage.removeItem(ENDED);
  changed();
}

export function bearer(): Record<string, string> {
  const key = secret();
  return key ? { Authorization: `Bearer ${key}` } : {};
}

const codeHere = (): string | null => new URLSearchParams(location.hash.slice(1)).get("code");

/** Signs in with the one-time code of an `andon open` link, which is in the fragment: no log sees it.
 *
 * Undefined if the address has no code.
 */
export async function signIn(): Promise<Problem | null | undefined> {
  const code = codeHere();
  if (!code) return undefined;
  location.replace("#/");
  try {
    const answer = await send<{ secret: string }>("POST", SESSION, { code });
    remember(answer.secret);
    return null;
  } catch (error) {
    return error instanceof Problem ? error : new Problem(0, "the server is not responding", "andon open");
  }
}

/** Asks a node of a hub, or with null the server itself. */
export function get<T>(path: string, node: string | null, signal?: AbortSignal): Promise<T> {
  return ask<T>(below(path, node), { signal: signal ?? null });
}

/** Changes something on the server itself; with a node, computes with what is known of it. */
export function send<T>(method: "POST" | "PATCH" | "DELETE", path: string, body?: unknown, node: string | null = null): Promise<T> {
  const init: RequestInit = { method };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { "Content-Type": "application/json" };
  }
  return ask<T>(below(path, node), init);
}

async function ask<T>(path: string, init: RequestInit): Promise<T> {
  let answer: Response;
  const key = secret();
  try {
    answer = await fetch(path, {
      ...init,
      cache: "no-store",
      headers: { ...(init.headers as Record<string, string>), ...bearer() },
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, "the server is not responding", "is andon serve running?");
  }
  if (answer.ok) return (await answer.json()) as T;
  const exchange = path === SESSION && init.method === "POST";
  if (answer.status === 401 && !exchange) forget(key); // a used link does not end a session
  throw await problemOf(answer);
}

async function problemOf(answer: Response): Promise<Problem> {
  try {
    const { error } = (await answer.json()) as { error: { reason: string; hint: string; details?: string[] } };
    return new Problem(answer.status, error.reason, error.hint, error.details);
  } catch {
    return new Problem(answer.status, `the server answered ${answer.status}`, "");
  }
}
