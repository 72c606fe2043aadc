/** Where days, hours and reservations of a week stand, also in the weeks when the clocks change. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Reservation } from "../src/api/types";
import { changeCommand, endsFor, gpusOf, HOUR, hourAt, idOf, lengthOf, localText, moved, rangeOf, reserveCommand, reservedSpans, summaryOf, weekOf } from "../src/lib/week";

process.env["TZ"] = "Europe/Berlin";
const at = (text: string) => new Date(text).getTime() / 1000;
const NOW = at("2026-11-19T17:20:00");
const DAYS = weekOf(NOW);
const hoursOf = (days: number[]) => days.slice(1).map((day, place) => (day - (days[place] as number)) / HOUR);
const one = (part: Partial<Reservation> = {}): Reservation => ({ id: "r1", devices: [{ uuid: "g0", index: 0 }, { uuid: "g1", index: 1 }], begins: NOW + HOUR, ends: NOW + 3 * HOUR, name: "paper", simulated: false, uid: 7, user: "alice", used: false, blocked: false, delayed: 0, lapses: null, ...part });

test("days are as long as the clock makes them: 23 hours in March, 25 in October", () => {
  assert.deepEqual(hoursOf(DAYS), [24, 24, 24, 24, 24, 24, 24]);
  assert.deepEqual(hoursOf(weekOf(at("2026-03-27T12:00"))), [24, 24, 23, 24, 24, 24, 24]);
  assert.deepEqual(hoursOf(weekOf(at("2026-10-23T12:00"))), [24, 24, 25, 24, 24, 24, 24]);
  assert.equal(localText(weekOf(at("2026-10-23T12:00"))[3] as number), "2026-10-26T00:00");
});

test("an hour begins on the hour of its day, within the week, and not before now", () => {
  assert.equal(localText(hourAt(DAYS, at("2026-11-20T18:40"), NOW)), "2026-11-20T18:00");
  assert.equal(localText(hourAt(DAYS, at("2026-11-19T03:00"), NOW)), "2026-11-19T17:00");
  assert.equal(localText(hourAt(DAYS, Infinity, NOW)), "2026-11-25T23:00");
  const october = weekOf(at("2026-10-23T12:00"));
  const twice = [1, 2, 3, 4].map((hour) => localText(hourAt(october, (october[2] as number) + hour * HOUR + 60, 0)).slice(11));
  assert.deepEqual(twice, ["01:00", "02:00", "02:00", "03:00"], "the hour that exists twice is two hours");
});

test("keys move by an hour, by a GPU and by a day of the clock, and stop at the edges", () => {
  const cell = { row: 1, at: at("2026-11-20T18:00") };
  const key = (name: string, shift = false, from = cell) => moved(from, name, shift, 3, DAYS, NOW);
  assert.deepEqual([key("ArrowUp"), key("ArrowDown")].map((found) => found?.row), [0, 2]);
  assert.equal(key("ArrowDown", false, { ...cell, row: 2 })?.row, 2);
  assert.equal(localText(key("ArrowRight")?.at ?? 0), "2026-11-20T19:00");
  assert.equal(localText(key("ArrowLeft", true)?.at ?? 0), "2026-11-19T18:00");
  assert.equal(localText(key("ArrowLeft", true, { row: 1, at: at("2026-11-20T05:00") })?.at ?? 0), "2026-11-19T17:00", "not before now");
  assert.equal(localText(key("End")?.at ?? 0), "2026-11-25T23:00");
  assert.equal(key("x"), null);
  const march = weekOf(at("2026-03-27T12:00"));
  assert.equal(localText(moved({ row: 0, at: at("2026-03-28T18:00") }, "ArrowRight", true, 1, march, 0)?.at ?? 0), "2026-03-29T18:00", "23 hours later");
});

test("a range has both of its ends, whichever came first, and begins no earlier than now", () => {
  const from = { row: 2, at: at("2026-11-20T20:00") };
  assert.deepEqual(rangeOf(from, { row: 1, at: at("2026-11-20T18:00") }, NOW), { rows: [1, 2], from: at("2026-11-20T18:00"), to: at("2026-11-20T21:00") });
  assert.equal(rangeOf({ row: 0, at: at("2026-11-19T17:00") }, from, NOW).from, NOW);
});

test("a reservation has a bar on each of its GPUs, with who and what for", () => {
  const bars = reservedSpans([one(), one({ uid: 8, user: "bob", name: "" })], NOW);
  assert.deepEqual(bars.map((bar) => [bar.row, bar.who, bar.label]), [["g0", "alice", "alice · paper"], ["g1", "alice", "alice · paper"], ["g0", "bob", "bob"], ["g1", "bob", "bob"]]);
  assert.equal(new Set(bars.map((bar) => bar.id)).size, 4, "two users' r1 are two");
  assert.match(bars[0]?.says ?? "", /: reserved from .* to .*, 2\sh$/);
  assert.equal(idOf(one()), "reserved/r1/7");
  assert.match(summaryOf([one()], NOW), /^1 reservation, the next at /);
  assert.equal(summaryOf([], NOW), "nothing is reserved");
});

test("GPUs are named by their runs", () => {
  assert.equal(gpusOf(["2"]), "GPU 2");
  assert.equal(gpusOf(["0", "4", "5", "6", "7"]), "GPUs 0, 4–7");
  assert.equal(gpusOf(["0", "1", "3:0"]), "GPUs 0, 1, 3:0");
});

test("the command says the same, with the zone of this clock and quotes that a shell keeps", () => {
  const from = at("2026-11-20T18:00");
  assert.equal(reserveCommand(["4", "5"], from, from + 12 * HOUR, "it's", NOW), "andon reserve --gpus 2 -d 4,5 --from 2026-11-20T18:00+01:00 --for 12h --name 'it'\\''s'");
  assert.equal(reserveCommand(["0"], NOW, NOW + 5400, "", NOW), "andon reserve --gpus 1 -d 0 --for 90m");
  assert.equal(changeCommand("r7", null, from, from + HOUR), "andon reserve change r7 --for 1h");
  assert.equal(changeCommand("r7", from, from, from + HOUR), "andon reserve change r7 --from 2026-11-20T18:00+01:00 --for 1h");
  assert.equal(lengthOf(26 * HOUR), "26h");
});

test("a lease that cannot be extended because of another user's reservation says so in its last hour", () => {
  const next = one({ begins: NOW + HOUR / 2, devices: [{ uuid: "g1", index: 1 }] });
  const of = (until: number | null, user = "bob", uuids = ["g0", "g1"], at = NOW) => endsFor(uuids, user, until, [next], at);
  assert.equal(of(NOW + HOUR / 2), next);
  assert.equal(of(NOW + 60), next);
  assert.equal(of(NOW + 60, "alice"), null);
  assert.equal(of(NOW + 60, "bob", ["g0"]), null);
  assert.equal(of(null), null);
  assert.equal(of(NOW + HOUR), null, "an older lease does not end before");
  assert.equal(of(NOW + 60, "bob", ["g1"], NOW - HOUR), null, "more than an hour ahead");
  assert.equal(of(NOW + 60, "bob", ["g1"], NOW + 61), null, "over");
  assert.ok(reserveCommand(["0"], NOW + HOUR, NOW + 2 * HOUR, "", NOW, 4).endsWith(" --for 1h --weekly 4"));
});
