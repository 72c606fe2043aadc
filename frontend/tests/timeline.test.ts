/** Where bars of the timelines stand, which jobs and leases become bars, and where arrow keys go. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Job, Lease, Leases } from "../src/api/types";
import { coloursOf, neighbour, placed, type Span, ticksOf } from "../src/lib/timeline";
import { daySpans, firstFree } from "../src/pages/leaseSpans";
import { expectedEnd, moreWaiting, QUEUE, rowsOf, spansOf, windowOf } from "../src/pages/jobs/timeline";

const NOW = 1_800_000_000;
const span = (row: string, from: number, to: number | null, sure?: number): Span => ({ id: `${row}-${from} ${row}`, row, from, to, ...(sure === undefined ? {} : { sure }), tone: "", who: "a", label: "", says: "" });
const rows = [{ id: "0", title: "GPU 0" }, { id: "1", title: "GPU 1" }, { id: "2", title: "GPU 2" }];

test("bars stand in percent, are cut at the edges, and overlapping ones take lanes", () => {
  const [first] = placed(rows, [span("0", -50, 50), span("0", 20, null), span("0", 60, 80), span("0", 200, 300)], 0, 100);
  assert.deepEqual(first?.bars.map((bar) => [bar.left, bar.width, bar.lane, bar.open]), [[0, 50, 0, false], [20, 80, 1, true], [60, 20, 0, false]]);
  assert.equal(first?.lanes, 2);
});

test("what is only expected is a share of the bar", () => {
  const [first] = placed(rows, [span("0", 0, 80, 20), span("0", 90, 100)], 0, 100);
  assert.deepEqual(first?.bars.map((bar) => bar.expected), [0.75, 0]);
});

test("arrow keys go along a row, and to the nearest bar of the next row that has any", () => {
  const found = placed(rows, [span("0", 0, 10), span("0", 50, 60), span("2", 40, 45), span("2", 90, 95)], 0, 100);
  assert.equal(neighbour(found, "0-0 0", "ArrowRight"), "0-50 0");
  assert.equal(neighbour(found, "0-0 0", "ArrowLeft"), null);
  assert.equal(neighbour(found, "0-50 0", "ArrowDown"), "2-40 2");
  assert.equal(neighbour(found, "2-90 2", "ArrowUp"), "0-50 0");
});

test("ticks are round hours of the local clock, eight at most", () => {
  assert.deepEqual(ticksOf(1800, 3600 * 7, 0), [1, 2, 3, 4, 5, 6, 7].map((hour) => 3600 * hour));
  assert.equal(ticksOf(0, 86_400 * 7, 0).length, 8);
  assert.equal(ticksOf(0, 86_400, -330)[0], 1800, "a clock that is half an hour off");
});

test("users have colours that do not depend on the order in which they are listed", () => {
  assert.deepEqual([...coloursOf(["bob", "alice", "bob"])], [["alice", "--run-1"], ["bob", "--run-2"]]);
});

const job = (part: Partial<Job>): Job => ({ user: "alice", label: "1", number: 1, name: "train", command: "x", state: "running", engine: null, devices: ["0"], started: NOW - 100, ended: null, seconds: null, submitted_at: NOW - 200, position: null, expected_start: null, for_seconds: null, progress: null, where: null, lease: null, gpus: "1", ...part }) as Job;

test("a job has a bar on each of its GPUs; the end of one that runs is expected or not known", () => {
  const limited = job({ devices: ["0", "1"], for_seconds: 400 });
  const bars = spansOf([limited], NOW);
  assert.deepEqual(bars.map((one) => [one.row, one.from, one.to, one.sure]), [["0", NOW - 100, NOW + 300, NOW], ["1", NOW - 100, NOW + 300, NOW]]);
  assert.match(bars[0]?.says ?? "", /expected to end about .* \(its limit\)/);
  assert.match(spansOf([job({})], NOW)[0]?.says ?? "", /its end is not known/);
  assert.equal(expectedEnd(job({ progress: { step: 1, total: 2, label: "", rate: 1, expected_end: NOW - 5 } }), NOW), null);
});

test("a waiting job stands in the queue, one that never started nowhere, and a hidden name stays hidden", () => {
  const waits = job({ label: "2", state: "waiting", started: null, expected_start: NOW + 60, position: 1 });
  const never = job({ label: "3", state: "cancelled", started: null });
  assert.deepEqual(spansOf([waits, never], NOW).map((one) => [one.row, one.from, one.sure]), [[QUEUE, NOW - 200, NOW]]);
  assert.match(spansOf([job({ ...waits, expected_start: null })], NOW)[0]?.says ?? "", /when it starts is not known/);
  assert.equal(spansOf([job({ command: "hidden", name: "secret" })], NOW)[0]?.label.includes("secret"), false);
  const many = Array.from({ length: 9 }, (_, place) => job({ ...waits, label: String(place), position: place + 1 }));
  assert.equal(spansOf(many, NOW).length, 6);
  assert.equal(moreWaiting(many), "and 3 more jobs");
});

test("rows are the GPUs here, those that only jobs name, clusters and the queue", () => {
  const found = rowsOf([job({ devices: ["9"] }), job({ engine: "lab" })], [{ label: "0", href: "#" }]);
  assert.deepEqual(found.map((one) => one.title), ["GPU 0", "GPU 9", "lab", "waiting"]);
});

test("the window shows what is expected, but leaves the past at least half", () => {
  assert.deepEqual(windowOf(100, [], NOW), [NOW - 100, NOW + 25]);
  assert.deepEqual(windowOf(100, [span("0", 0, NOW + 70)], NOW), [NOW - 100, NOW + 70]);
  assert.deepEqual(windowOf(100, [span("0", 0, NOW + 7000)], NOW), [NOW - 100, NOW + 100]);
});

const lease = (part: Partial<Lease>): Lease => ({ id: "k1", user: "bob", command: "x", since: NOW - 50, until: null, state: "held", devices: [{ uuid: "g0", index: 0 }], ...part }) as Lease;

test("a lease without an end has that of its job, or none at all", () => {
  const list = { at: NOW, devices: [{ uuid: "g0", label: "0" }], leases: [lease({})] } as unknown as Leases;
  const open = daySpans(list, []);
  assert.equal(open[0]?.to, null);
  assert.match(open[0]?.says ?? "", /until its command ends/);
  assert.equal(firstFree(list, open), "No lease has an end that is known");
  const known = daySpans(list, [job({ lease: "k1", for_seconds: 1000 })]);
  assert.equal(known[0]?.to, NOW + 900);
  assert.match(firstFree(list, known), /^Next to be free: GPU 0 at about /);
  assert.equal(firstFree(list, []), "The day ahead");
});
