/** The parts of the board that only compute: sizes, spans, gaps, lamps, texts. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { placeAt } from "../src/charts/cursor";
import { bands, drawnFrom, joined, labelBelow, shareOf, summaryOf } from "../src/charts/data";
import { CHOICES, KINDS, kindsOf, nowOf, spread } from "../src/charts/metrics";
import { commandOf, fetchSpan, moved, pointsOf, queryOf, reset, selected, stampOf, viewOf, zoomed } from "../src/charts/span";
import { banner } from "../src/lib/banner";
import { overlap, placed } from "../src/lib/card";
import { located } from "../src/lib/commands";
import { fit } from "../src/lib/fit";
import { bytes, DASH, dateOf, duration, energy, gib, hourOf, isIdle, measured, ownWords, percent, readingName, throttleName, throttleTone, traffic, used, vendorName } from "../src/lib/format";
import { alertsOn, badge, gathered, listed, marks, parts, silenceText, stateOf, summary } from "../src/lib/alerting";
import { matches, passes } from "../src/lib/choosing";
import { availability, brief, firstStep, heldBy, idleFor, longer, occupants, together, unheld, whatEnds } from "../src/lib/holding";
import { devicesText, missed, notifiersOf, sentences } from "../src/lib/health";
import { headline, lampOf, serverLamps, shortened, UNKNOWN } from "../src/lib/lamps";
import { hostLine, totals } from "../src/lib/totals";
import durations from "./durations.json";
import figures from "./figures.json";
import { Rings, spans } from "../src/live/rings";
import { LiveStore } from "../src/live/store";
import { scriptOf } from "../src/live/upgrade";
import { paths } from "../src/parts/Sparkline";
import { nextOrder } from "../src/parts/Table";
import { nobody } from "../src/parts/Users";

const device = (more: object) => ({
  uuid: "GPU-1", index: 1, label: "1", vendor: "x", name: "X", pci: null, state: "ok", reason: null, hint: null, since: 10,
  parent: null, memory_kind: "device", memory_total_bytes: 1, memory_unattributed_bytes: null, visible: true,
  cuda_index: null, limits: {}, last_users: [], sample: { utilization_percent: 50, throttle: [] }, missing: {}, processes: [], ...more,
}) as never;
const snapshot = (at: number, devices: unknown[], boot = "b") => ({ at, devices, boot, node: "n", simulated: false, versions: {}, host: {}, faults: [] }) as never;

test("1 to 64 devices fit on one screen", () => {
  for (const [width, height] of [[1240, 480], [1400, 660], [1880, 840]] as const) {
    for (let count = 1; count <= 64; count += 1) {
      const found = fit(count, width, height);
      const rows = Math.ceil(count / found.columns);
      assert.ok(rows * (found.height + 8) - 8 <= height, `${count} on ${width} x ${height}`);
    }
  }
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
  assert.equal(availability("withheld", "root", "reserved"), "reserved");
  assert.equal(unheld("withheld", "reserved for root, next in the queue (2 GPUs)", "", true), "for root, next in the queue (2 GPUs)");
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

test("figures are rounded as the commands round them", () => {
  for (const one of figures.fixed) assert.equal(one.value.toFixed(one.digits), one.text, `${one.value}`);
  for (const one of figures.energy) assert.equal(energy(one.joules), one.text);
  for (const one of figures.gib) assert.equal(gib(one.bytes), one.text);
  for (const one of figures.percent) assert.equal(percent(one.value), one.text);
  assert.equal(energy(0.7, "power"), "~0.70 J");
  assert.equal(energy(0.7, "counter"), "0.70 J");
  assert.equal(energy(null, "power"), "–");
});

test("traffic is shown where it is known, and nothing is not 0", () => {
  assert.equal(hostLine({ load_1m: 1, disk_read_bytes_per_second: 1_200_000, disk_written_bytes_per_second: 0, network_received_bytes_per_second: null, network_sent_bytes_per_second: 900 } as never), "load 1.0 · disk 1.2 MB/s read, 0 B/s written · network 900 B/s sent");
  assert.equal(traffic(2.6e9, 578e6), "2.6 GB/s / 578 MB/s");
  assert.equal(traffic(0, null), "0 B/s / –");
  assert.equal(traffic(null, undefined), "–");
});

test("a device has charts of what it reports, in round units", () => {
  const bare = device({ sample: { utilization_percent: 1, sm_active_percent: null } });
  const full = device({ sample: { sm_active_percent: 0, pcie_sent_bytes_per_second: 0, nvlink_received_bytes_per_second: 5e9 } });
  const titles = (one: Parameters<typeof kindsOf>[0], most?: number) => kindsOf(one, most).map((kind) => kind.title);
  assert.deepEqual(titles(bare), ["Utilisation", "Memory", "Temperature", "Power", "Clocks"]);
  assert.deepEqual(titles(full).slice(5), ["Active share of the chip", "PCIe", "NVLink"]);
  assert.deepEqual(titles(full, 4), ["Utilisation", "Memory", "Temperature", "Power"]);
  assert.equal(nowOf(full, "nvlink_received_bytes_per_second"), 5);
  assert.equal(nowOf(full, "pcie_sent_bytes_per_second"), 0);
  assert.equal(nowOf(full, "pcie_received_bytes_per_second"), null);
  assert.equal(new Set(CHOICES.map((one) => one.title)).size, CHOICES.length);
});

test("alerts are listed as the server groups them, handled ones last, and the badge is the server's count", () => {
  const alert = (id: string, more: object = {}) => ({ id, rule: "thermal", message: `GPU 1 ${id}`, where: "GPU 1", state: "firing", level: "warning", device: 1, since: 0, resolved: null, no_data_since: null, affected: [], acknowledged: null, silenced_until: null, ...more });
  const alerts = [alert("a", { level: "critical" }), alert("b"), alert("c", { silenced_until: 9 }), alert("d", { state: "pending" }), ...["e", "f", "g"].map((id) => alert(id, { level: "info", rule: "idle" })), alert("h", { state: "resolved", resolved: 60 })];
  const entry = (id: string, level: string, lamp: string, related: string[] = []) => ({ id, level, lamp, related });
  const entries = [entry("a", "critical", "red", ["b"]), entry("c", "warning", "amber"), entry("d", "warning", "ring"), ...["e", "f", "g"].map((id) => entry(id, "info", "green")), entry("h", "warning", "grey")];
  const list = { alerts, entries, counts: { critical: 1, warning: 0, info: 3, pending: 1, clearing: 0, handled: 1 } } as never;
  const found = parts(listed(list));
  assert.deepEqual(found.active.map((one) => one.alert.id), ["a"]);
  assert.deepEqual(found.handled.map((one) => one.alert.id), ["c"]);
  assert.deepEqual(listed(list).map((one) => one.colour), ["red", "amber", "ring", "info", "info", "info", "grey"]);
  assert.deepEqual(found.active[0]?.related.map((one) => one.id), ["b"]);
  assert.deepEqual(found.pending.map((one) => one.alert.id), ["d"]);
  assert.deepEqual(found.past.map((one) => one.alert.id), ["h"]);
  assert.deepEqual(gathered(found.info).map((one) => one.length), [3]);
  assert.deepEqual(badge(list), { count: 1, colour: "red" });
  const none = { critical: 0, warning: 0, info: 0, pending: 0, clearing: 0, handled: 0 };
  assert.equal(badge({ counts: { ...none, handled: 2 } } as never), null);
  assert.equal(badge(undefined), null);
  assert.equal(summary({ critical: 1, warning: 2, info: 3, pending: 1, clearing: 1, handled: 2 }), "1 critical · 2 warnings · 1 pending · 1 clearing · 2 handled · 3 informational");
  assert.equal(summary(none), "no active alerts");
  assert.deepEqual(stateOf(alerts[7] as never, 120), ["ended 1 min ago", "lasted 1 min"]);
  assert.deepEqual(marks(alert("a", { acknowledged: { by: "ana", note: "on it" } }) as never), ["acknowledged by ana: on it"]);
});

test("a device's alerts are listed with what they explain, and not apart from it", () => {
  const alert = (id: string, more: object = {}) => ({ id, subject: "GPU-2", state: "firing", level: "critical", ...more }) as never;
  const [heat, slow, other, over] = [alert("heat"), alert("slow", { state: "pending" }), alert("other", { subject: "GPU-3" }), alert("over", { state: "resolved" })];
  const entry = (one: never, related: never[] = []) => ({ alert: one, level: "critical", related }) as never;
  const found = (all: never[]) => alertsOn("GPU-2", all).map((one) => [one.alert.id, ...one.related.map((two) => two.id)]);
  assert.deepEqual(found([entry(heat, [slow, over]), entry(other)]), [["heat", "slow"]]);
  assert.deepEqual(found([entry(other, [slow])]), [["slow"]], "explained by another device's");
  assert.deepEqual(found([entry(over, [])]), []);
});

test("a limit's name stands where the readings are not", () => {
  const line = (...mean: (number | null)[]) => [{ min: mean, mean, max: mean }] as never;
  assert.equal(labelBelow(line(99, 98, null, 40), 97, 10), true);
  assert.equal(labelBelow(line(88, 88, 88, 40), 89, 10), false);
  assert.equal(labelBelow(line(null), 89, 10), false);
});

test("who is notified is told, and not known is not nobody", () => {
  assert.deepEqual(notifiersOf({ notifiers: [{ name: "slack" }, { name: "mail" }] }), ["slack", "mail"]);
  assert.deepEqual(notifiersOf({ notifiers: [] }), []);
  assert.equal(notifiersOf(undefined), null);
});

test("a silence is named by what it is about", () => {
  const at = new Date(2026, 10, 15, 12, 33).getTime() / 1000;
  const rules = [{ name: "thermal", title: "Too hot" }] as never;
  const text = silenceText({ rule: "thermal", subject: "GPU-x", until: at } as never, rules, () => "GPU 2");
  assert.match(text, /^Too hot on GPU 2, until .*12:33$/);
  assert.match(silenceText({ rule: null, subject: null, until: at } as never, rules, () => null), /^Every alert, until/);
});

test("nobody is not said of a device that cannot be read", () => {
  assert.equal(nobody(device({})), "No processes.");
  assert.match(nobody(device({ state: "stale", sample: { at: 1000 }, last_users: ["alice", "bob"] })), /^Not known: it is not responding\. Last seen .*: alice, bob\.$/);
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

test("a far time says its day", () => {
  const noon = new Date(2026, 10, 15, 12, 0).getTime() / 1000;
  assert.equal(hourOf(noon + 3_600, noon), "13:00");
  assert.match(hourOf(noon + 86_400, noon), /Mon.*12:00/);
  assert.match(hourOf(noon + 9 * 86_400, noon), /2026/);
});

test("spans average what was read and leave gaps where nothing was", () => {
  assert.deepEqual(spans([100, 101, 106, 111], [10, 30, null, 50], 111, 5, 3), [20, null, 50]);
  assert.deepEqual(spans([], [], 0, 5, 2), [null, null]);
});

test("a sparkline breaks where nothing was read, and shows a lone reading", () => {
  assert.equal(paths([null, null]).line, "");
  assert.equal(paths([50, null, 50]).line.match(/M/g)?.length, 2);
  assert.match(paths([null, 50, null]).line, /h0\.01$/);
});

test("a late reading is bridged and a long silence is a gap", () => {
  assert.deepEqual(joined([0, 1, 2], [1, null, 3], 3), [1, undefined, 3]);
  assert.deepEqual(joined([0, 30, 60], [1, null, 3], 3), [1, null, 3]);
  assert.deepEqual(joined([0, 1], [null, 3], 3), [null, 3]);
});

test("history and what the page has seen itself become one line", () => {
  const rings = new Rings();
  for (const at of [98, 104, 105]) rings.add(snapshot(at, [device({ sample: { utilization_percent: at, throttle: ["sw_power_cap"] } })]));
  const none = { min: [null, null, null], mean: [null, null, null], max: [null, null, null] };
  const kept = { min: [1, 2, null], mean: [1, 2, null], max: [1, 2, null] };
  const names = ["memory_used_bytes", "temperature_celsius", "power_watts", "sm_clock_mhz", "memory_clock_mhz"];
  const charts = {
    device: "GPU-1", since: 100, until: 106, at: [100, 102, 104], throttle: { sw_power_cap: [0.5, 0, null] }, readings: [2, 2, 0],
    series: { utilization_percent: kept, ...Object.fromEntries(names.map((name) => [name, none])) },
  } as never;
  const found = drawnFrom(charts, rings.of("GPU-1"), 100, 106, 1);
  assert.deepEqual(found.at, [100, 102, 104, 105]);
  assert.deepEqual(found.series.utilization_percent.mean, [1, 2, 104, 105]);
  assert.deepEqual(bands(found, isIdle).get("sw_power_cap"), [
    { since: 100, until: 102, share: 0.5 }, { since: 104, until: 106, share: 1 },
  ]);
  assert.equal(shareOf(found, "sw_power_cap"), 3 / 6, "three of six readings");
});

test("a share of time is the same however many spans it is drawn in", () => {
  const slowed = (at: number) => (at % 21 < 12 ? 1 : 0);
  const drawn = (width: number) => {
    const at = Array.from({ length: 2100 / width }, (_, place) => place * width);
    const share = at.map((begin) => Array.from({ length: width }, (_, n) => slowed(begin + n)).reduce((a, b) => a + b, 0) / width);
    return { at, throttle: { hw_slowdown: share }, readings: at.map(() => width), widths: at.map(() => width), series: {} } as never;
  };
  for (const width of [1, 7, 30, 300, 2100]) {
    assert.ok(Math.abs((shareOf(drawn(width), "hw_slowdown") ?? 0) - 12 / 21) < 1e-9, `${width} s`);
  }
  assert.equal(shareOf({ at: [1], throttle: {}, readings: [0], widths: [1], series: {} } as never, "hw_slowdown"), null);
});

test("what the cursor points at is the span that it lies in, or nothing", () => {
  assert.equal(placeAt([10, 20, 30], 25, 15), 1);
  assert.equal(placeAt([10, 20, 30], 30, 15), 2);
  assert.equal(placeAt([10, 20, 30], 5, 15), null);
  assert.equal(placeAt([10, 20, 30], 46, 15), null);
  assert.equal(placeAt([], 46, 15), null);
});

test("a chart says mean, least and most, and never a number for nothing", () => {
  const kind = KINDS[0] as never;
  const columns = { min: [10, null, 50], mean: [20, null, 60], max: [30, null, 99] };
  assert.deepEqual(summaryOf(columns, [3, 0, 1]), { mean: 30, min: 10, max: 99 });
  assert.equal(spread(kind, summaryOf(columns, [3, 0, 1])), "mean 30 % (10–99)");
  assert.equal(spread(kind, { mean: 5, min: 5, max: 5 }), "5 %");
  assert.equal(spread(kind, summaryOf({ min: [null], mean: [null], max: [null] })), "no reading");
});

test("a chart writes a value as the rest of its page does", () => {
  const [memory, pcie] = ["Memory", "PCIe"].map((title) => KINDS.find((one) => one.title === title) as never);
  assert.equal(spread(memory as never, { mean: 127.6, min: 99.9, max: 140.4 }), "mean 128 GiB (99.9–140)");
  assert.equal(spread(pcie as never, { mean: 0.2, min: 0.2, max: 0.2 }), "200 kB/s");
  assert.equal(spread(pcie as never, { mean: 718, min: 132, max: 1267 }), "mean 718 MB/s (132 MB/s–1.3 GB/s)");
});

test("a date is written as the commands write it, and a state is not said twice", () => {
  assert.match(dateOf(1_700_000_000), /^2023-11-1\d \d\d:\d\d$/);
  assert.equal(together("in use", "in use by alice"), "in use by alice");
  assert.equal(together("idle", "free"), "idle · free");
});

test("a limit lies inside the scale of its chart", () => {
  const limited = { memory_total_bytes: 80 * 1024 ** 3, limits: { slowdown_celsius: 90, sm_clock_mhz: 1980, power_default_watts: 700 }, sample: { power_limit_watts: 500 } } as never;
  assert.deepEqual(KINDS.map((kind) => kind.limit(limited)?.value ?? null), [null, 80, 90, 500, 1980, null, null, null]);
  assert.deepEqual(KINDS.map((kind) => kind.limit({ memory_total_bytes: null, limits: {}, sample: null } as never)), KINDS.map(() => null));
});

test("the banner has the temperature that the page shows, not that of the alert", () => {
  const lamp = { colour: "red", word: "too hot", reason: "GPU 1 is too hot: 79 °C", forWhom: "alice" } as never;
  const alert = { unit: "celsius", since: 100, value: 79, limit: 90, threshold: 70 } as never;
  const hot = device({ sample: { temperature_celsius: 73 } });
  assert.equal(banner(lamp, alert, hot, 400), "too hot for 5 min · now 73 °C (alert above 70 °C, slows down at 90 °C) · affects alice");
  assert.equal(banner(lamp, alert, device({ sample: { temperature_celsius: 91 } }), 400), "too hot for 5 min · now 91 °C (slows down at 90 °C) · affects alice");
  const idle = { colour: "amber", word: "reserved but idle", reason: "GPU 1 is reserved by alice but idle for 20 min", forWhom: "alice", by: { rule: "idle", since: 100 } } as never;
  assert.equal(banner(idle, undefined, hot, 1300), "reserved but idle for 20 min", "who holds it stands below");
  assert.equal(banner(lamp, undefined, hot, 400), "too hot · 79 °C · affects alice");
  assert.equal(banner({ colour: "green", word: "idle", reason: null, forWhom: null } as never, alert, hot, 400), "idle");
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

test("health is told in words with units", () => {
  assert.equal(missed(6, 294, 300), "6 readings missed in 5 min (2 %)");
  const facts = { missed: 6, snapshots: 294, sampler_cpu_seconds: 0.3, age_seconds: 0.84 };
  assert.deepEqual(sentences("sampler", facts, { uptime: 300 }), [
    "6 readings missed in 5 min (2 %)", "294 readings since the start 5 min ago",
    "CPU of the sampling loop: 0.10 % of one core", "last reading 0.8 s ago",
  ]);
  assert.deepEqual(sentences("leases", { readable: false, count: null, owner: null }, { uptime: 1 }), ["the lease book cannot be read"]);
  assert.deepEqual(sentences("of_tomorrow", { size_bytes: 1500, on: true }, { uptime: 1 }), ["size: 1.5 kB", "on: yes"]);
  assert.equal(devicesText({ ok: 6, lost: 2 }), "8 GPUs: 6 responding, 2 lost");
});

test("names are sorted from A to Z first, numbers from the largest down", () => {
  const text = { name: "user", cell: () => null };
  assert.deepEqual(nextOrder({ name: "", down: true }, text), { name: "user", down: false });
  assert.deepEqual(nextOrder({ name: "user", down: false }, text), { name: "user", down: true });
  assert.deepEqual(nextOrder({ name: "", down: true }, { ...text, number: true }), { name: "user", down: true });
});

test("another board is known by the name of its script", () => {
  assert.equal(scriptOf('<script src="/static/assets/index-D2Coiy-q.js">'), "assets/index-D2Coiy-q.js");
  assert.equal(scriptOf("/src/live/upgrade.ts"), null);
});

test("rings keep five minutes and no more, and forget devices that are gone", () => {
  const rings = new Rings();
  for (let at = 0; at < 2000; at += 1) rings.add(snapshot(at + 1, [device({}), device({ uuid: "GPU-2" })]));
  assert.ok(rings.of("GPU-1").at.length < 400);
  rings.add(snapshot(2001, [device({})]));
  assert.equal(rings.of("GPU-2").at.length, 0);
});

test("the time moves, zooms and never runs ahead of now", () => {
  const now = 1_000_000;
  const view = { seconds: 300, until: null, range: 300 };
  assert.deepEqual(moved(view, now, -0.5), { seconds: 300, until: now - 150, range: 300 });
  assert.equal(moved({ ...view, until: now - 100 }, now, 0.5).until, null);
  assert.equal(zoomed(view, now, 0.001).seconds, 60);
  assert.ok(fetchSpan(view, now).since <= now - 300);
  assert.equal(viewOf(new URLSearchParams("seconds=5&until=x")).seconds, 300);
  assert.ok(pointsOf(31_536_000) <= 360);
});

test("a zoom keeps the instant that was pointed at, and a reset the range that was chosen", () => {
  const now = 1_000_000;
  const day = { seconds: 86_400, until: null, range: 86_400 };
  const near = zoomed(day, now, 0.5, now - 43_200);
  assert.deepEqual(near, { seconds: 43_200, until: now - 21_600, range: 86_400 });
  const part = selected(day, now - 7_200, now - 3_600);
  assert.deepEqual(part, { seconds: 3_600, until: now - 3_600, range: 86_400 });
  assert.deepEqual(viewOf(queryOf(part)), part);
  assert.deepEqual(reset(part), day);
  assert.equal(queryOf(part, new URLSearchParams("metric=power_watts&until=1")).get("metric"), "power_watts");
  assert.equal(selected(day, now - 100, now - 98).seconds, 60);
});

test("the command beneath asks for the range that is drawn", () => {
  assert.equal(commandOf("andon history 3", { seconds: 1_800, until: null, range: 1_800 }), "andon history 3 --since 30m");
  assert.equal(commandOf("andon history 3", { seconds: 450, until: null, range: 300 }), "andon history 3 --since 450s");
  const past = commandOf("andon history 3", { seconds: 3_600, until: 1_794_286_800, range: 300 });
  const [, since = "", until = ""] = /^andon history 3 --since (\S+) --until (\S+)$/.exec(past) ?? [];
  assert.deepEqual([Date.parse(since), Date.parse(until)], [1_794_283_200_000, 1_794_286_800_000]);
  assert.match(stampOf(1_794_286_800), /^2026-11-\d\dT\d\d:\d\d:00[+-]\d\d:\d\d$/);
});

test("the server's lamp counts, unless the device's state has changed since", () => {
  const said = serverLamps({ at: 20, devices: [{ uuid: "GPU-1", index: 1, lamp: "amber", status: "too hot", reason: "GPU 1 is too hot: 90 °C", affected_user: "alice", alerts: [], lit_by: null, soon: null }] } as never);
  assert.equal(lampOf(device({}), said, 21).colour, "amber");
  assert.equal(lampOf(device({}), said, 21).forWhom, "alice");
  assert.equal(lampOf(device({ since: 21, state: "lost" }), said, 21).colour, "red");
  assert.equal(lampOf(device({ state: "asleep" }), null, 21).colour, "grey");
  assert.equal(lampOf(device({ sample: null }), null, 21).word, "no data");
  assert.equal(shortened("GPU 1 is too hot: 90 °C"), "90 °C");
  assert.equal(shortened("GPU 1 was too hot (99 °C); now 82 °C, clears after 2 min"), "99 °C; now 82 °C, clears after 2 min");
  const over = serverLamps({ at: 20, devices: [{ uuid: "GPU-1", lamp: "ring", status: "was too hot", reason: "GPU 1 was too hot (99 °C); now 72 °C, clears in 2 min", lit_by: null, soon: null, handled: false }] } as never);
  assert.deepEqual([lampOf(device({}), over, 21).colour, lampOf(device({}), over, 21).word], ["ring", "was too hot"]);
  const soon = serverLamps({ at: 20, devices: [{ uuid: "GPU-1", lamp: "ring", status: "getting too hot", reason: "GPU 1 is too hot: 91 °C (alert above 80 °C)", lit_by: null, soon: { id: "x", message: "GPU 1 is too hot: 91 °C (alert above 80 °C)", fires_in_seconds: 40 } }] } as never);
  assert.equal(lampOf(device({}), soon, 21).reason, "alert in 40 s: 91 °C (alert above 80 °C)");
  assert.equal(shortened("GPU 6:1 is thermally throttled at 89 °C"), "thermally throttled at 89 °C");
});

test("the headline without a server's word counts and names", () => {
  const two = [device({}), device({ uuid: "GPU-2", index: 2, state: "lost", reason: "gone" })];
  const lamps = (devices: never[]) => new Map(devices.map((one: { uuid: string }) => [one.uuid, lampOf(one as never, null, 1)]));
  assert.equal(headline(snapshot(1, two), lamps(two)).text, "GPU 2 is lost: gone");
  assert.equal(headline(snapshot(1, [two[0]]), lamps([two[0] as never])).text, "The GPU is fine");
  assert.equal(headline(snapshot(1, []), new Map()).colour, "grey");
});

test("silence is noticed by the page's own clock, and a new snapshot ends it", () => {
  let clock = 0;
  const store = new LiveStore(() => clock);
  store.received(snapshot(1000, [device({})]));
  clock = 4;
  store.tick();
  assert.equal(store.get().staleSeconds, null);
  clock = 9;
  store.tick();
  assert.equal(store.get().staleSeconds, 9);
  store.received(snapshot(1001, [device({})]));
  assert.equal(store.get().staleSeconds, null);
  store.received(snapshot(990, [device({})]));
  assert.equal(store.get().snapshot?.at, 1001, "an older one that comes late is not shown");
  store.received(snapshot(500, [device({})]));
  assert.equal(store.get().snapshot?.at, 500, "a clock that was set back does not stop the board");
});

test("a device is called as the server calls it", () => {
  const store = new LiveStore(() => 0);
  store.received(snapshot(1, [device({ index: 6, label: "6" }), device({ uuid: "M-1", parent: "GPU-1", label: "6:1" })]));
  assert.deepEqual(["GPU-1", "M-1"].map((uuid) => store.label(uuid)), ["6", "6:1"]);
});

test("unknown is a dash and never a zero", () => {
  assert.equal(percent(null), DASH);
  assert.equal(percent(0), "0 %");
  assert.equal(gib(undefined), DASH);
  assert.equal(used(null, 5, "W"), DASH);
  assert.equal(used(2.4, 5, "W"), "2 / 5 W");
  assert.equal(bytes(1_500_000), "1.5 MB");
});

test("throttle reasons and vendors are called as the server's tables call them", () => {
  assert.equal(throttleName("hw_thermal_slowdown"), "thermal (hardware)");
  assert.equal(throttleName("of_tomorrow"), "of tomorrow");
  assert.deepEqual(["sw_thermal_slowdown", "sw_power_cap", "temperature_limit", "sync_boost"].map(throttleTone), ["red", "amber", "grey", "grey"]);
  assert.equal(vendorName("amd"), "AMD GPUs");
  assert.equal(vendorName("tpu"), "tpu");
});

test("a command says where it works: through a tunnel the page's node is not this machine", () => {
  const far = "http://node17:8080";
  assert.deepEqual(located("andon why 3", "http://127.0.0.1:26366", "node17"), { text: "andon why 3", place: null });
  assert.deepEqual(located("andon why 3", far, "node17"), { text: `andon why 3 --url ${far}`, place: null });
  assert.deepEqual(located(`andon open --url ${far}`, far, "node17"), { text: `andon open --url ${far}`, place: null });
  assert.deepEqual(located("andon", far, "node17"), { text: `andon --url ${far}`, place: null });
  assert.deepEqual(located("andon run -- python train.py", far, "node17"), { text: "andon run -- python train.py", place: "on node17:" });
  assert.deepEqual(located("andon lease --gpus 1", far, null), { text: "andon lease --gpus 1", place: null });
});

test("durations are as in the commands", () => {
  for (const one of durations) assert.deepEqual([duration(one.seconds), measured(one.seconds)], [one.lasted, one.took], `${one.seconds} s`);
});

test("the number and the clock of a device are called as its vendor calls them", () => {
  const named = (vendor: string) => [ownWords(vendor).index, ownWords(vendor).clock];
  assert.deepEqual(named("nvidia"), ["CUDA index", "SM clock"]);
  assert.deepEqual(named("amd"), ["HIP index", "core clock"]);
  assert.deepEqual(named("intel"), ["device number", "clock"]);
  assert.deepEqual(named("someone else"), ["device number", "clock"]);
  const clocks = (vendor: string) => {
    const device = { vendor, memory_total_bytes: null, limits: { sm_clock_mhz: 1980 }, sample: null } as never;
    const kind = kindsOf(device).find((one) => one.title === "Clocks")!;
    return [kind.limit(device)?.label, ...kind.lines.map((line) => line.name)];
  };
  assert.deepEqual(clocks("nvidia"), ["max SM clock", "SM clock", "memory clock"]);
  assert.deepEqual(clocks("amd"), ["max core clock", "core clock", "memory clock"]);
});

test("a missing value has a plain name", () => {
  const named = (name: string) => readingName(name, "amd");
  assert.deepEqual(["memory_used_bytes", "sm_clock_mhz", "memory_temperature_celsius", "processes", "ecc_uncorrected"].map(named),
    ["memory", "core clock", "memory temperature", "processes", "uncorrected ECC errors"]);
});
