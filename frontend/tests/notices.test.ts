/** What the browser tells a person: the news that concern them, once, and nothing that was there before. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Alert, Job, Reservation } from "../src/api/types";
import { noticesBetween, type Seen } from "../src/lib/notices";

const AT = 1_000_000;
const job = (state: string, more: object = {}): Job => ({ label: "12", number: 12, engine: null, name: "train", user: "ada", state, attempt: 1, devices: ["3"], reason: null, ...more }) as unknown as Job;
const alert = (state: string, more: object = {}): Alert => ({ id: "thermal@x#1", state, level: "warning", message: "GPU 3 is too hot", advice: "Check the cooling", affected: [{ user: "ada" }], evidence: {}, acknowledged: null, silenced_until: null, ...more }) as unknown as Alert;
const reservation = (begins: number, user = "ada"): Reservation => ({ id: "r1", user, begins, name: "night" }) as unknown as Reservation;
const seen = (more: Partial<Seen> = {}): Seen => ({ jobs: [], alerts: [], reservations: [], at: AT, ...more });
const titles = (before: Partial<Seen>, now: Partial<Seen>, me = "ada") => noticesBetween(seen(before), seen({ at: AT + 1, ...now }), me).map((one) => one.title);

test("a job has its turn and ends, once each", () => {
  assert.deepEqual(titles({ jobs: [job("waiting")] }, { jobs: [job("running")] }), ["Job 12 (train) has its turn: GPU 3"]);
  assert.deepEqual(titles({ jobs: [job("running")] }, { jobs: [job("timed_out")] }), ["Job 12 (train) timed out"]);
  assert.deepEqual(titles({ jobs: [job("running")] }, { jobs: [job("running")] }), []);
  assert.deepEqual(titles({ jobs: [job("running")] }, { jobs: [job("waiting")] }), []);
});

test("what was there when the page was opened is no news", () => {
  assert.deepEqual(titles({ jobs: undefined, alerts: undefined }, { jobs: [job("failed")], alerts: [alert("firing")] }), []);
  assert.deepEqual(titles({ alerts: [alert("firing")] }, { alerts: [alert("firing")] }), []);
});

test("only what concerns this person, and everything where nobody is known", () => {
  const now = { jobs: [job("failed", { user: "bob" })], alerts: [alert("firing", { affected: [{ user: "bob" }] })] };
  assert.deepEqual(titles({ jobs: [job("running", { user: "bob" })] }, now), []);
  assert.equal(titles({ jobs: [job("running", { user: "bob" })] }, now, "").length, 2);
  assert.deepEqual(titles({}, { alerts: [alert("firing", { affected: [], evidence: { reserved_by: "ada" } })] }), ["GPU 3 is too hot"]);
});

test("alerts that are pending, of information, acknowledged or silenced say nothing", () => {
  for (const more of [{ state: "pending" }, { level: "info" }, { acknowledged: {} }, { silenced_until: AT + 9 }])
    assert.deepEqual(titles({}, { alerts: [alert("firing", more)] }), [], JSON.stringify(more));
});

test("a reservation is told of a quarter of an hour ahead, once", () => {
  const coming = [reservation(AT + 900.5)];
  assert.equal(titles({ reservations: coming }, { reservations: coming }).length, 1);
  assert.deepEqual(titles({ reservations: coming, at: AT + 5 }, { reservations: coming, at: AT + 6 }), []);
  assert.deepEqual(titles({}, { reservations: [reservation(AT + 901.5, "bob")], at: AT + 2 }), []);
  assert.deepEqual(titles({}, { reservations: [reservation(AT - 60)] }), []);
});

test("texts of others are bounded", () => {
  const [one] = noticesBetween(seen(), seen({ alerts: [alert("firing", { message: "x".repeat(9000) })] }), "ada");
  assert.equal(one?.title.length, 300);
});
