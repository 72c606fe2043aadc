/** Requests of a browser that signs in and out meanwhile. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { get, secret, sessionEnded, signIn } from "../src/api/client";

const kept = new Map<string, string>();
const waiting = new Map<string, (answer: Response) => void>();
Object.assign(globalThis, {
  sessionStorage: {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
    removeItem: (key: string) => void kept.delete(key),
  },
  location: { hash: "#code=once", replace: () => undefined },
  fetch: (path: string) => new Promise<Response>((answer) => waiting.set(path, answer)),
});

const answer = (path: string, status: number, body: object) => waiting.get(path)?.(new Response(JSON.stringify(body), { status }));
const REFUSED = { error: { reason: "sign in", hint: "" } };

test("only a refusal of the session's own secret ends it", async () => {
  const early = get("/api/alerts", null); // the page asks before it is signed in
  const signed = signIn();
  answer("/api/session", 200, { secret: "a-secret" });
  assert.equal(await signed, null);
  answer("/api/alerts", 401, REFUSED);
  await assert.rejects(early);
  assert.equal(secret(), "a-secret");
  assert.ok(!sessionEnded());
  const late = get("/api/leases", null);
  answer("/api/leases", 401, REFUSED);
  await assert.rejects(late);
  assert.equal(secret(), null);
  assert.ok(sessionEnded());
});
