/** What charts compute: spans, gaps, shares, zooming, and what the cursor points at. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { placeAt } from "../src/charts/cursor";
import { columnsOf, padded, roundTop, timeTicks } from "../src/charts/axis";
import { bands, drawnFrom, firstRead, joined, shareOf, summaryOf } from "../src/charts/data";
import { gapsOf, whyGap } from "../src/charts/gaps";
import { alertMarks, clustered, jobMarks, marksOn } from "../src/charts/marks";
import { CHOICES, KINDS, kindsOf, nowOf, spread } from "../src/charts/metrics";
import { csvOf, fileName } from "../src/charts/saving";
import { begunView, commandOf, doubled, fetchSpan, moved, pointsOf, queryOf, reset, selected, stampOf, viewOf, zoomed } from "../src/charts/span";
import { isIdle } from "../src/lib/format";
import { Rings, spans } from "../src/live/rings";
import { paths } from "../src/parts/Sparkline";
import { device, snapshot } from "./made";

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

test("a limit lies inside the scale of its chart", () => {
  const limited = { memory_total_bytes: 80 * 1024 ** 3, limits: { slowdown_celsius: 90, sm_clock_mhz: 1980, power_default_watts: 700 }, sample: { power_limit_watts: 500 } } as never;
  assert.deepEqual(KINDS.map((kind) => kind.limit(limited)?.value ?? null), [null, 80, 90, 500, 1980, null, null, null]);
  assert.deepEqual(KINDS.map((kind) => kind.limit({ memory_total_bytes: null, limits: {}, sample: null } as never)), KINDS.map(() => null));
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
  assert.equal(viewOf(new URLSearchParams("seconds=5&until=x")).seconds, 7_200);
  for (const until of ["1e999", "9e12", "NaN", "-1"]) assert.equal(viewOf(new URLSearchParams({ until })).until, null);
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

test("a gap is longer than three spans, and the silence before what is read first is one", () => {
  const at = [100, 110, 200, 210];
  const widths = [10, 10, 10, 10];
  assert.deepEqual(gapsOf(at, [1, 2, 3, 4], widths, 100, 220), [{ since: 120, until: 200 }]);
  assert.deepEqual(gapsOf(at, [null, null, 3, undefined], widths, 50, 400), [{ since: 210, until: 400 }], "before the first reading nothing is missing");
  assert.deepEqual(gapsOf(at, [1, 2, 3, 4], widths, 195, 225), [], "what is not written down yet is no gap");
  assert.deepEqual(gapsOf([], [], [], 0, 60), [{ since: 0, until: 60 }]);
});

test("a gap says why: an alert of that time, the state, what else was read", () => {
  const gap = { since: 500, until: 600 };
  const lost = { rule: "device_lost", subject: "GPU-1", since: 400, resolved: 650, message: "GPU 1 is lost" };
  const known = { device: device({ missing: { power_watts: "not supported" } }), alerts: [], since: 0, now: 1000, others: () => null };
  assert.equal(whyGap(gap, "power_watts", { ...known, alerts: [lost] as never }), "GPU 1 is lost");
  assert.match(whyGap(gap, "power_watts", { ...known, alerts: [{ ...lost, resolved: 450 }] as never }), /no server was running/);
  assert.equal(whyGap(gap, "power_watts", { ...known, others: () => "device" }), "not supported");
  assert.match(whyGap(gap, "power_watts", { ...known, others: () => "node" }), /others were/);
  assert.match(whyGap(gap, "power_watts", { ...known, since: 500 }), /^nothing is recorded in this range/);
  const stale = device({ state: "stale", reason: "not responding for 9 s" });
  assert.equal(whyGap({ since: 500, until: 1000 }, "power_watts", { ...known, device: stale }), "not responding for 9 s");
});

test("alerts and jobs become marks of their devices, and those that lie on each other one", () => {
  const alert = { id: "a1", rule: "thermal", subject: "GPU-1", level: "critical", message: "GPU 0 is too hot", fired: 120, resolved: 180 };
  const marks = alertMarks([alert, { ...alert, id: "a2", fired: null }] as never);
  assert.deepEqual(marks.map((one) => [one.at, one.bad, one.href]), [[120, true, "#/alerts/a1"], [180, false, "#/alerts/a1"]]);
  const job = { number: 7, label: "7", name: "train", user: "bob", engine: null, state: "failed", started: 121, ended: 150, device_uuids: ["GPU-1", "GPU-2"] };
  const jobs = jobMarks({ jobs: [job, { ...job, started: null }], scope: "everyone", user: "alice" } as never);
  assert.deepEqual(jobs.map((one) => [one.kind, one.title, one.href]), [
    ["start", "job 7 train started (bob)", "#/jobs/7?user=bob"], ["end", "job 7 train ended: failed", "#/jobs/7?user=bob"],
  ]);
  const all = marksOn([...marks, ...jobs], "GPU-1");
  assert.equal(marksOn([...marks, ...jobs], "GPU-2").length, 2);
  const found = clustered(all, 100, 200, 10);
  assert.deepEqual(found.map((one) => one.share), [0.2, 0.5, 0.8]);
  assert.match(found[0]?.text ?? "", /alert: GPU 0 is too hot\n.*job 7 train started/);
  assert.equal(found[0]?.href, "#/alerts/a1", "the worst of them");
  assert.equal(clustered(all, 300, 400, 10).length, 0);
});

test("an axis has round times, a round end, and room for a line at 0 and at the top", () => {
  const ticks = timeTicks(1_794_286_810, 1_794_286_810 + 86_400, 4);
  assert.ok(ticks.length >= 3 && ticks.length <= 5);
  assert.ok(ticks.every((one) => new Date(one.at * 1000).getMinutes() === 0));
  assert.deepEqual([1, 80, 101, 784, 2217].map(roundTop), [1, 80, 120, 800, 2500]);
  const [low, high] = padded(100, 104);
  assert.deepEqual([low, high], [-2, 102]);
  assert.deepEqual([columnsOf(3790, 8), columnsOf(1880, 8), columnsOf(1880, 16), columnsOf(1240, 8), columnsOf(1240, 3), columnsOf(300, 8)], [4, 4, 6, 4, 3, 1]);
});

test("a CSV has a row for each time and device, and empty cells for nothing", () => {
  const text = csvOf([
    { gpu: "GPU 0", at: [10, 20, 30], columns: { "power W mean": [1.23456, null, 3] } },
    { gpu: "GPU 1, a \"b\"", at: [20], columns: { "power W mean": [undefined] } },
  ], 15, 30);
  const [head, first, second, third] = text.split("\n");
  assert.equal(head, "time,gpu,power W mean");
  assert.match(first ?? "", /^19\S+,GPU 0,$/);
  assert.match(second ?? "", /,GPU 0,3$/);
  assert.match(third ?? "", /,"GPU 1, a ""b""",$/);
  assert.match(fileName("node: all GPUs", 1_794_286_800, true), /^andon_SIMULATED_node-_all_GPUs_2026-11-\d\dT\d\d-\d\d$/);
});

test("a range up to now begins with the first reading, and what is fetched grows in few steps", () => {
  const view = { until: null, seconds: 7_200, range: 7_200 };
  assert.equal(begunView(view, 10_000, 9_990).seconds, 60, "never shorter than a minute");
  assert.equal(begunView(view, 10_000, 9_400).seconds, 600);
  assert.equal(begunView(view, 10_000, 2_900), view, "a little that is missing changes no scale");
  assert.equal(begunView(view, 10_000, Infinity), view, "not known yet");
  const past = { ...view, until: 9_000 };
  assert.equal(begunView(past, 10_000, 8_900), past);
  assert.deepEqual([60, 61, 600, 5_000].map((seconds) => doubled({ ...view, seconds }, view).seconds), [60, 120, 960, 7_200]);
});

test("the first reading is the first that is recorded, else the first that the page has received", () => {
  const ring = { at: [100, 101] } as never;
  const band = { min: [], max: [], mean: [null, 3, 4] } as never;
  assert.equal(firstRead([10, 20, 30], [band], ring, 0), 20);
  assert.equal(firstRead([10, 20, 30], [], ring, 100.5), 101);
  assert.equal(firstRead([], [], ring, 200), Infinity);
});
