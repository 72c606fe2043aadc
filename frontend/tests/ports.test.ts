/** Where pages get their data: from the hooks of the ports, of the page's node or of one that is named. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { about, keyOf } from "../src/api/asking";
import { get } from "../src/api/client";
import { RUNS } from "../src/api/ports";
import { live, liveOf } from "../src/live/store";

const asked: string[] = [];
Object.assign(globalThis, {
  sessionStorage: { getItem: () => null },
  fetch: async (path: string) => {
    asked.push(path);
    return new Response(JSON.stringify(path.endsWith("/snapshot") ? { at: 7, devices: [], node: "n17" } : { at: [], devices: {}, metric: "utilization_percent" }));
  },
});
const wait = (ms: number) => new Promise((done) => setTimeout(done, ms));

test("a question goes to the node that is named, and to the server itself with none", async () => {
  await get("/api/health", null);
  await get("/api/jobs?state=", "n 17");
  assert.deepEqual(asked.splice(0), ["/api/health", "/api/nodes/n%2017/jobs?state="]);
  assert.notDeepEqual(keyOf(RUNS.one("k"), null), keyOf(RUNS.one("k"), "n17"), "answers of nodes are remembered apart");
});

test("another node's live data are asked for while they are shown", async () => {
  const store = liveOf("n17");
  assert.equal(liveOf("n17"), store);
  assert.equal(liveOf(null), live);
  assert.deepEqual(asked, []);
  const leave = store.subscribe(() => undefined);
  await wait(50);
  assert.equal(asked[0], "/api/nodes/n17/snapshot");
  assert.equal(store.get().snapshot?.at, 7);
  assert.equal(live.get().snapshot, null);
  leave();
  asked.length = 0;
  await wait(3_200);
  assert.deepEqual(asked, []);
});

test("a change asks again for what depends on it, and for nothing else", () => {
  const hit = (subject: Parameters<typeof about>[0], path: string, node?: string | null) => about(subject, node).predicate({ queryKey: ["n17", path] });
  for (const path of ["/api/board", "/api/alerts?limit=200", "/api/alerts/x"]) assert.ok(hit("alerts", path), path);
  for (const path of ["/api/alerts/rules", "/api/leases", "/api/devices/x/why"]) assert.ok(!hit("alerts", path), path);
  assert.ok(hit("leases", "/api/board") && hit("leases", "/api/leases"));
  assert.ok(hit("jobs", "/api/jobs/12") && !hit("list of jobs", "/api/jobs/12") && hit("list of jobs", "/api/jobs?state=&limit=500"));
  assert.ok(hit("list of runs", "/api/runs?limit=100") && !hit("list of runs", "/api/runs/k"));
  assert.ok(!hit("jobs", "/api/jobs?limit=100", null), "a live event is the server's own");
});

const PIECES = ["pages/jobs/log.ts", "pages/runs/queries.ts"]; // a file is read piece by piece
test("no page asks by itself", () => {
  const files = ["pages", "parts", "charts", "lib"].flatMap((folder) => readdirSync(`src/${folder}`, { recursive: true }).map((name) => `${folder}/${name}`));
  const sources = files.filter((name) => /\.tsx?$/.test(name) && name !== "lib/change.ts");
  const asking = sources.filter((name) => /react-query|\bfetch\(|\bget[,} ].*from ".*api\/client"/.test(readFileSync(`src/${name}`, "utf8")));
  assert.deepEqual(asking.sort(), PIECES);
});
