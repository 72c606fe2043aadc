/** The palette: what it finds by a few letters, and in which order. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Entry, found, lengthIn } from "../src/lib/finding";

const entry = (kind: Entry["kind"], title: string, more: Partial<Entry> = {}): Entry => ({ kind, title, act: "#/", ...more });
const ALL = [
  entry("page", "Leases"),
  entry("GPU", "GPU 1", { detail: "H200 · free" }),
  entry("GPU", "GPU 12", { detail: "H200 · in use by alice", words: "alice train.py 4711" }),
  entry("user", "alice"),
  entry("action", "Lease GPU 1 for 2 h"),
  entry("command", "Copy andon why 12", { words: "gpu 12" }),
];
const titles = (typed: string, most = 9) => found(ALL, typed, most).map((one) => one.title);

test("every word has to occur, in whatever order and wherever it is told", () => {
  assert.deepEqual(titles("12 gpu"), ["GPU 12", "Copy andon why 12"]);
  assert.deepEqual(titles("4711"), ["GPU 12"]);
  assert.deepEqual(titles("no such thing"), []);
});

test("what begins with the words comes first", () => {
  assert.deepEqual(titles("lease"), ["Leases", "Lease GPU 1 for 2 h"]);
  assert.deepEqual(titles("alice"), ["alice", "GPU 12"]);
  assert.deepEqual(titles("gpu 1"), ["GPU 1", "GPU 12", "Lease GPU 1 for 2 h", "Copy andon why 12"]);
  assert.equal(titles("", 3).length, 3);
});

test("a length is read where it stands last, and else it is two hours", () => {
  assert.deepEqual(lengthIn("lease gpu 5 for 4 h"), { text: "4h", seconds: 14_400, rest: "lease gpu 5 " });
  assert.deepEqual(lengthIn("lease 5 30min").seconds, 1_800);
  assert.deepEqual(lengthIn("silence 1d").text, "1d");
  for (const typed of ["lease gpu 5", "h200", "0 h", "gpu 3 h100"]) assert.deepEqual(lengthIn(typed), { text: "2h", seconds: 7_200, rest: typed });
});
