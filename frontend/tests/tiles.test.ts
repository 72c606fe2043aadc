/** The tiles of the board: their sizes, holders and words, search and filter. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { overlap, placed } from "../src/lib/card";
import { fit } from "../src/lib/fit";
import { matches, passes } from "../src/lib/choosing";
import { availability, brief, firstStep, heldBy, idleFor, longer, occupants, unheld, whatEnds } from "../src/lib/holding";
import { UNKNOWN } from "../src/lib/lamps";
import { hostLine, totals } from "../src/lib/totals";
import { Hours, HOURS_SECONDS, STEPS } from "../src/live/hours";
import { nobody } from "../src/parts/Users";
import { device, snapshot } from "./made";

test("1 to 64 devices fit on one screen", () => {
  for (const [width, height] of [[1240, 480], [1400, 660], [1880, 840]] as const) {
    for (let count = 1; count <= 64; count += 1) {
      const found = fit(count, width, height);
      const rows = Math.ceil(count / found.columns);
      assert.ok(rows * (found.height + found.gap) - found.gap <= height, `${count} on ${width} x ${height}`);
    }
  }
});

test("on a large screen the tiles grow with the type", () => {
  const [small, large] = [fit(8, 1240, 560), fit(8, 3 * 1240, 3 * 560, 3)];
  assert.deepEqual(large, { ...small, height: large.height, gap: 3 * small.gap });
  assert.ok(Math.abs(large.height - 3 * small.height) < 3);
});

test("tiles are as large as they can be, and without a hole where that costs nothing", () => {
  assert.equal(fit(8, 1400, 660).columns, 4);
  assert.equal(fit(8, 1400, 660).density, "roomy");
  assert.equal(fit(1, 1400, 660).density, "grand");
  assert.equal(fit(64, 1400, 660).density, "compact");
  assert.equal(fit(64, 360, 500).narrow, true);
});

test("few tiles are wide rather than tall, and leave no column empty", () => {
  for (const [width, height] of [[1240, 480], [1240, 544], [1400, 644], [1880, 824]] as const) {
    for (const count of [1, 2, 3, 4, 6, 8]) {
      const found = fit(count, width, height);
      const wide = (width + 8) / found.columns - 8;
      assert.equal(count % found.columns, 0, `${count} on ${width} x ${height}: ${found.columns} columns`);
      assert.ok(found.height <= wide, `${count} on ${width} x ${height}`);
    }
  }
  assert.equal(fit(4, 1240, 544).density, "grand");
});

test("a holder is told once where it is the one who computes", () => {
  const held = (more: object) => ({ lease: "k7qm2", user: "alice", until: null, memory_bytes: null, state: "held", ...more });
  assert.equal(heldBy(undefined), null);
  assert.deepEqual(heldBy([held({})]), { users: "alice", until: null });
  assert.deepEqual(heldBy([held({ until: 5 }), held({ user: "bob" })]), { users: "alice, bob", until: null });
  assert.equal(heldBy([held({ state: "orphaned" })])?.users, "alice (orphaned)");
  assert.equal(occupants("", null, null), "no processes");
  assert.equal(unheld("free", null, ""), "free");
  assert.equal(unheld("free", null, "erin · Xorg"), "free · erin · Xorg");
  assert.equal(unheld("in_use", "pid 7 (bob)", "bob · python"), "in use by bob · python");
  assert.equal(unheld("withheld", "cordoned by root", ""), "withheld: cordoned by root");
  assert.equal(unheld(null, null, ""), "no processes");
  assert.equal(occupants("bob · python", null, null), "bob · python");
  assert.equal(occupants("", "alice", "14:20"), "held by alice until 14:20");
  assert.equal(occupants("alice · python", "alice", "14:20"), "alice · python · until 14:20");
  assert.equal(occupants("alice, root", "alice", null), "alice, root");
  assert.equal(occupants("bob · python", "alice", "14:20"), "held by alice until 14:20, used by bob · python");
});

test("the word of a tile says whether it can be had, and its last line what is more", () => {
  assert.equal(availability("free", null, null), "free");
  assert.equal(availability("held", "root for dora", "leased"), "held by root for dora");
  assert.equal(availability("in_use", "bob", "unleased_process"), "in use by bob");
  assert.equal(availability("withheld", "root", "cordoned"), "cordoned");
  assert.equal(availability("withheld", null, "ecc"), "withheld");
  assert.equal(availability("withheld", "root", "next"), "next in queue");
  assert.equal(unheld("withheld", "promised to root, next in the queue (2 GPUs)", "", true), "root, next in the queue (2 GPUs)");
  assert.equal(idleFor("20 min", { users: "alice", until: "22:00" }), "for 20 min · alice, until 22:00");
  assert.equal(idleFor("20 min", { users: "alice", until: null }), "for 20 min · alice");
  assert.equal(idleFor("20 min", null), "for 20 min");
  assert.equal(availability(null, null, null), null, "unknown is not free");
  assert.equal(unheld("withheld", null, "alice"), "withheld · alice");
  assert.equal(unheld("free", null, "", true), "no processes");
  assert.equal(unheld("withheld", "cordoned by root: new fan", "", true), "cordoned by root: new fan");
  assert.equal(occupants("dora · train.py", "dora", "14:20", true), "until 14:20 · dora · train.py");
  assert.deepEqual(["alice · train.py", "alice, bob", "alice, caroline, dora", ""].map(brief), ["alice", "alice, bob", "alice +2", ""]);
  assert.equal(firstStep("Reset it: sudo nvidia-smi -r. Then reboot."), "Reset it: sudo nvidia-smi -r.");
});

test("a search finds the words that are shown, and a filter what it says", () => {
  const told = (more: object, lamp: object, verdict?: object, holders: object[] = []) =>
    ({ device: device(more), lamp: { ...UNKNOWN, ...lamp }, verdict, holders }) as never;
  const free = told({ sample: { utilization_percent: 0, throttle: [] } }, { colour: "green" }, { kind: "free", by: null });
  const hot = told({ name: "NVIDIA L40S", processes: [{ user: "bob", name: "python", program: "train.py", pid: 7 }] }, { colour: "red", word: "too hot" }, { kind: "in_use", by: "bob" });
  const lost = told({ state: "lost", last_users: ["dora"] }, { colour: "red", word: "lost" }, { kind: "withheld", reason: "lost", by: null });
  const held = told({}, { colour: "green" }, { kind: "held", by: "root for dora", until: null }, [{ user: "root for dora" }]);
  const all = [free, hot, lost, held];
  const found = (search: string) => all.map((one) => matches(one, search));
  assert.deepEqual(found("free"), [true, false, false, false]);
  assert.deepEqual(found("idle"), [true, false, false, false]);
  assert.deepEqual(found("hot"), [false, true, false, false]);
  assert.deepEqual(found("lost"), [false, false, true, false]);
  assert.deepEqual(found("dora"), [false, false, true, true]);
  assert.deepEqual(found("bob l40s"), [false, true, false, false]);
  assert.deepEqual(found("nothing"), [false, false, false, false]);
  assert.deepEqual(all.map((one) => passes(one, "free", "")), [true, false, false, false]);
  assert.deepEqual(all.map((one) => passes(one, "mine", "dora")), [false, false, true, true]);
  assert.deepEqual(all.map((one) => passes(one, "troubled", "")), [false, true, true, false]);
  const calling = (lamp: object) => passes(told({}, lamp), "troubled", "");
  assert.deepEqual([{ colour: "red", handled: true }, { colour: "ring" }, { colour: "grey", word: "not responding" }, { colour: "grey", word: "not responding", handled: true }].map(calling), [false, false, true, false]);
});

test("the strip counts what is free and sums what is read, and keeps the host apart", () => {
  const gpu = (uuid: string, more: object = {}) => device({
    uuid, memory_total_bytes: 80 * 1024 ** 3, sample: { utilization_percent: 49, memory_used_bytes: 40 * 1024 ** 3, power_watts: 750, temperature_celsius: 89, throttle: [] }, ...more,
  });
  const devices = [gpu("a"), gpu("b"), gpu("c", { state: "lost" })];
  const verdicts = new Map([["a", { kind: "free" }], ["b", { kind: "held" }]]) as never;
  const found = totals(snapshot(1, devices), verdicts);
  assert.deepEqual(found.free?.map((one) => one.uuid), ["a"]);
  assert.deepEqual([found.busy, found.memory, found.power, found.hottest, found.silent], ["49 %", "80 of 240 GiB", "1.5 kW", "89 °C", "2 of 3 respond"]);
  assert.equal(totals(snapshot(1, devices), new Map()).free, null, "not known is not none");
  assert.equal(hostLine({ cpu_percent: 4.2, memory_used_bytes: 1024 ** 3, memory_total_bytes: 23.5 * 1024 ** 3, load_1m: 2.52 } as never), "CPU 4 % · RAM 1.0 of 23.5 GiB · load 2.5");
});

test("nobody is not said of a device that cannot be read", () => {
  assert.equal(nobody(device({})), "No processes.");
  assert.match(nobody(device({ state: "stale", sample: { at: 1000 }, last_users: ["alice", "bob"] })), /^Not known: it is not responding; last seen .* with alice, bob\.$/);
  assert.match(nobody(device({ state: "lost", sample: null })), /^Not known: it is lost, and has not been read/);
});

test("an extension is never a shortening", () => {
  assert.deepEqual(longer(1_000, 900).map((one) => one.text), ["1h", "2h", "4h", "8h", "1d", "3d", "7d"]);
  assert.deepEqual(longer(900 + 5 * 3_600, 900).map((one) => one.text), ["8h", "1d", "3d", "7d"]);
  assert.deepEqual(longer(900 + 8 * 86_400, 900), []);
});

test("before a lease is given back it is said what ends with it", () => {
  const lease = (more: object) => ({ user: "alice", kind: "command", devices: [{}], ...more }) as never;
  assert.match(whatEnds(lease({})), /stop alice's job/);
  assert.match(whatEnds(lease({ kind: "library" })), /keeps running/);
  assert.match(whatEnds(lease({ kind: "network", whom: null, devices: [{}, {}] })), /Its 2 GPUs may be assigned/);
});

test("a card lies beside its tile and never over a lit one", () => {
  const page = { width: 1000, height: 600 };
  const tile = { left: 10, top: 10, right: 110, bottom: 60 };
  const card = { width: 200, height: 200 };
  assert.deepEqual(placed(card, tile, [], page), { left: 118, top: 10 });
  const lit = [{ left: 120, top: 10, right: 220, bottom: 60 }];
  const found = placed(card, tile, lit, page) as { left: number; top: number };
  const box = { ...found, right: found.left + 200, bottom: found.top + 200 };
  assert.ok(!overlap(box, lit[0] as never) && !overlap(box, tile));
  assert.equal(placed(card, tile, [{ left: 0, top: 0, right: 1000, bottom: 600 }], page), null);
});

test("the line of a tile is of the last hours once there are some, and stays bounded", () => {
  const hours = new Hours();
  const uuid = "GPU-1";
  const at = 1_700_000_040; // a step begins
  const told = (now: number, busy: number) => hours.add(snapshot(now, [device({ sample: { utilization_percent: busy } })]));
  told(at, 10);
  told(at + 1, 30);
  assert.equal(hours.enough, false);
  hours.seed({ metric: "utilization_percent", at: [at - HOURS_SECONDS + 120, at - 240], devices: { [uuid]: [80, null] } });
  assert.equal(hours.enough, true);
  const line = hours.of(uuid, at + 1);
  assert.deepEqual([line.length, line[0], line.at(-3), line.at(-1)], [STEPS, 80, null, 20]);
  told(at + 240, 50);
  assert.deepEqual(hours.of(uuid, at + 240).slice(-3), [20, null, 50]);
  assert.equal(hours.of(uuid, at - 1)[0], null, "what is older is forgotten");
});

test("a moment of rest when the board is opened is no drop of the line", () => {
  const hours = new Hours();
  const begin = 1_700_000_040; // a step begins
  const at = begin + 100;
  const times = Array.from({ length: STEPS + 1 }, (_, place) => at - HOURS_SECONDS + 120 * place);
  hours.seed({ metric: "utilization_percent", at: times, devices: { "GPU-1": [...times.map(() => 95).slice(1), 8] } });
  const told = (now: number, busy: number) => hours.add(snapshot(now, [device({ sample: { utilization_percent: busy } })]));
  for (let now = at; now < at + 10; now += 1) told(now, now < at + 5 ? 8 : 97);
  assert.ok((hours.of("GPU-1", at + 9).at(-1) as number) > 85, "its last step is mostly the one before");
  for (let now = at + 10; now <= begin + 241; now += 1) told(now, 97);
  assert.ok(Math.min(...hours.of("GPU-1", begin + 241).map(Number)) > 85, "nor is it one later");
  for (let now = begin + 242; now < begin + 600; now += 1) told(now, 0);
  assert.equal(Math.round(hours.of("GPU-1", begin + 599).at(-1) as number), 0, "a rest that lasts is one");
});
