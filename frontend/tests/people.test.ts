/** Pages of a process and of a user: who is who, and what follows from their uses. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { processLink, userLink } from "../src/lib/links";
import { beside, costOf, identityOf, isSame, livesOf } from "../src/lib/people";

const use = (fields: object) => ({ device: "GPU-1", pid: 7, started: 100, user: "alice", name: "train.py", first: 110, last: 200, peak_memory_bytes: 5, ...fields }) as never;

test("a process is its pid and its start, in the address too", () => {
  assert.deepEqual(identityOf(processLink({ pid: 7, started: 100.25 }).replace("#/process/", "")), { pid: 7, started: 100.25 });
  assert.deepEqual(identityOf("7"), { pid: 7, started: null });
  assert.equal(identityOf("7-x"), null);
  assert.equal(userLink("a/b"), "#/user/a%2Fb");
  assert.ok(isSame({ pid: 7, started: 100.2 }, { pid: 7, started: 101 }));
  assert.ok(!isSame({ pid: 7, started: 100 }, { pid: 7, started: 900 }), "a pid that was used again");
});

test("the life of a process is put together by device", () => {
  const all = [use({}), use({ first: 300, last: 400, peak_memory_bytes: null }), use({ device: "GPU-2" }), use({ pid: 8 })];
  const found = livesOf(all, { pid: 7, started: 100 });
  assert.deepEqual(found.map((one) => [one.device, one.first, one.last, one.peak_memory_bytes]), [["GPU-1", 110, 400, 5], ["GPU-2", 110, 200, 5]]);
});

test("readings are a process's own only where nobody else was on the device", () => {
  const own = use({});
  assert.deepEqual(beside([own, use({ device: "GPU-2", pid: 9, user: "bob" }), use({ pid: 9, user: "carol", first: 200, last: 300 })], own), []);
  assert.deepEqual(beside([own, use({ pid: 9, user: "bob" }), use({ pid: 10, user: "bob" }), use({ pid: 11, user: null })], own), ["bob", "pid 11"]);
});

test("a cost is not known without a price or without the energy", () => {
  assert.equal(costOf(3.6e6, 0.3), 0.3);
  assert.equal(costOf(null, 0.3), null);
  assert.equal(costOf(3.6e6, null), null);
});
