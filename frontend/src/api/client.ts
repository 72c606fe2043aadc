/** Requests to the server, with the session's secret where the browser has one. */

const SECRET = "andon.secret";
const SESSION = "/api/session";

/** What the server says when it cannot: every error of it has this shape. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly reason: string,
    readonly hint: string,
  ) {
    super(reason);
  }

  /** In one line. */
  get told(): string {
    return [this.reason, this.hint].filter(Boolean).join(": ");
  }
}

let ended = false;
const listeners = new Set<() => void>();

export function secret(): string | null {
  return sessionStorage.getItem(SECRET);
}

/** Whether a session was there and is over: it ends with the server. */
export function sessionEnded(): boolean {
  return ended;
}

export function onAccess(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function forget(): void {
  if (!secret()) return;
  sessionStorage.removeItem(SECRET);
  ended = true;
  for (const listener of listeners) listener();
}

function remember(value: string): void {
  sessionStorage.setItem(SECRET, value);
  ended = false;
  for (const listener of listeners) listener();
}

export function bearer(): Record<string, string> {
  const shown = secret();
  return shown ? { Authorization: `Bearer ${shown}` } : {};
}

/** A link of `andon open` carries a one-time code in its fragment, which no log ever sees.
 *
 * Undefined where the address has none.
 */
export async function signIn(): Promise<Problem | null | undefined> {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (!code) return undefined;
  location.replace("#/");
  try {
    const said = await send<{ secret: string }>("POST", SESSION, { code });
    remember(said.secret);
    return null;
  } catch (error) {
    return error instanceof Problem ? error : new Problem(0, "the server does not answer", "andon open");
  }
}

export function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return ask<T>(path, { signal: signal ?? null });
}

export function send<T>(method: "POST" | "DELETE", path: string, body?: unknown): Promise<T> {
  const init: RequestInit = { method };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { "Content-Type": "application/json" };
  }
  return ask<T>(path, init);
}

async function ask<T>(path: string, init: RequestInit): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(path, {
      ...init,
      cache: "no-store",
      headers: { ...(init.headers as Record<string, string>), ...bearer() },
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, "the server does not answer", "is andon serve running?");
  }
  if (answer.ok) return (await answer.json()) as T;
  if (answer.status === 401 && path !== SESSION) forget(); // a spent link ends no session
  throw await problemOf(answer);
}

async function problemOf(answer: Response): Promise<Problem> {
  try {
    const said = (await answer.json()) as { error: { reason: string; hint: string } };
    return new Problem(answer.status, said.error.reason, said.error.hint);
  } catch {
    return new Problem(answer.status, `the server answered ${answer.status}`, "");
  }
}
