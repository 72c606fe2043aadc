/** Numbers, times and names as the board writes them, like the commands. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { kindsOf } from "../src/charts/metrics";
import { located } from "../src/lib/commands";
import { bytes, DASH, dateOf, duration, energy, gib, hourOf, measured, ownWords, percent, readingName, throttleName, throttleTone, traffic, unbroken, used, vendorName } from "../src/lib/format";
import { together } from "../src/lib/holding";
import { linkOf, menu } from "../src/lib/menu";
import { hostLine } from "../src/lib/totals";
import durations from "./durations.json";
import figures from "./figures.json";
import { LiveStore } from "../src/live/store";
import { scriptOf } from "../src/live/upgrade";
import { nextOrder } from "../src/parts/Table";
import { device, snapshot } from "./made";

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

test("a far time says its day", () => {
  const noon = new Date(2026, 10, 15, 12, 0).getTime() / 1000;
  assert.equal(hourOf(noon + 3_600, noon), "13:00");
  assert.match(hourOf(noon + 86_400, noon), /Mon.*12:00/);
  assert.match(hourOf(noon + 9 * 86_400, noon), /2026/);
});

test("a date is written as the commands write it, and a state is not said twice", () => {
  assert.match(dateOf(1_700_000_000), /^2023-11-1\d \d\d:\d\d$/);
  assert.equal(together("in use", "in use by alice"), "in use by alice");
  assert.equal(together("idle", "free"), "idle · free");
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

test("no line ends between a number and its unit", () => {
  const made = [percent(5), duration(73), duration(7_300), measured(0.067), energy(504), bytes(1_200), used(1, 2, "W"), traffic(1, null)];
  for (const text of [...made, unbroken("It is too hot (91 °C, for 32 min): 100 % of 700 W, 1.5 kWh")]) {
    assert.ok(!/\d (?![\d/(–])/.test(text), text);
  }
  assert.equal(unbroken("8 GPUs, 3 sessions, 2 hosts").includes("\u00a0"), false);
});

test("the page has its menu before its script, and loses what the server lacks", () => {
  const first = [...readFileSync("index.html", "utf8").matchAll(/<a(?: class="[^"]*")? href="(#[^"]*)">([^<]*)<\/a>/g)].map(([, link, title]) => [link, title]);
  assert.deepEqual(first.slice(1), menu({}).map(({ page, title }) => [linkOf(page), title]));
  assert.deepEqual(menu({ runs: true, jobs: false }).map(({ title }) => title).slice(-3), ["Alerts", "Runs", "Estimate"]);
});
