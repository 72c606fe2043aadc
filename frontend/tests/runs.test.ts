/** The parts of the runs' pages that only compute: news, overlays, ranges, words. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunDetails, RunUpdate } from "../src/api/types";
import { linesOf, meanOf, overlaid, withGaps, within, withNews } from "../src/pages/runs/data";
import { nothingDrawn, readText, requestOf, sinceStart, stateOf as runState } from "../src/pages/runs/words";

const COLUMNS_OF_RUN = { at: [0, 10], devices: { a: { power_watts: [100, null] }, b: { power_watts: [300, 200] } } };
const RUN = {
  id: "kqzvmtra", state: "running", began: 1000, read: { bytes: 50, of_bytes: 50 }, samples: 2, uses: [], duration_seconds: 10, progress: null,
  devices: [{ uuid: "a", label: "0" }, { uuid: "b", label: "1" }], series: COLUMNS_OF_RUN,
} as unknown as RunDetails;
const newsOf = (more: object) => ({
  id: "kqzvmtra", state: "running", since_bytes: 50, read: { bytes: 90, of_bytes: 90 }, samples: 3, uses: [], marks: [], duration_seconds: 20, progress: { step: 3, total: 9 },
  series: { at: [20], devices: { a: { power_watts: [110] }, b: { power_watts: [null] } } }, ...more,
}) as unknown as RunUpdate;

test("news of a run continue it, and only where nothing is missing between", () => {
  const next = withNews(RUN, newsOf({}));
  assert.deepEqual(next?.series.at, [0, 10, 20]);
  assert.deepEqual(next?.series.devices["a"]?.["power_watts"], [100, null, 110]);
  assert.deepEqual(next?.series.devices["b"]?.["power_watts"], [300, 200, null]);
  assert.equal(next?.read.bytes, 90);
  assert.deepEqual(next?.progress, { step: 3, total: 9 });
  assert.equal(withNews(RUN, newsOf({ since_bytes: 60 })), null);
  assert.equal(withNews(RUN, newsOf({ state: "succeeded" })), null);
  const again = withNews(RUN, newsOf({ since_bytes: 40, series: { at: [10, 20], devices: { a: { power_watts: [1, 2] } } } }));
  assert.deepEqual(again?.series.at, [0, 10, 20], "what is known is not added twice");
  assert.deepEqual(again?.series.devices["a"]?.["power_watts"], [100, null, 2]);
});

test("a line for each GPU that was read, and one for each run that is laid over others", () => {
  assert.deepEqual(linesOf(RUN, "power_watts").map((line) => line.label), ["GPU 0", "GPU 1"]);
  assert.deepEqual(linesOf(RUN, "temperature_celsius"), []);
  assert.deepEqual(meanOf(COLUMNS_OF_RUN, "power_watts"), [200, 200]);
  const other = { ...RUN, series: { at: [5], devices: { a: { power_watts: [50] } } } } as unknown as RunDetails;
  const { at, lines } = overlaid([RUN, other], "power_watts", (run) => run.id);
  assert.deepEqual(at, [0, 5, 10]);
  assert.deepEqual(lines.map((line) => line.columns.mean), [[200, undefined, 200], [undefined, 50, undefined]]);
});

test("a pause in a run ends its line, and another run's times do not bridge it", () => {
  const series = { at: [0, 10, 20, 320, 330, 340], devices: { a: { power_watts: [1, 2, 3, 4, 5, 6] } } };
  const cut = withGaps(series);
  assert.deepEqual(cut.at, [0, 10, 20, 30, 320, 330, 340]);
  assert.deepEqual(cut.devices["a"]?.["power_watts"], [1, 2, 3, null, 4, 5, 6]);
  const even = { at: [0, 20, 40, 41, 42], devices: { a: { power_watts: [1, 2, 3, 4, 5] } } };
  assert.equal(withGaps(even), even, "coarse steps before fine ones are no pause");
  const paused = { ...RUN, series: cut } as unknown as RunDetails;
  const other = { ...RUN, series: { at: [100, 325], devices: { a: { power_watts: [7, 8] } } } } as unknown as RunDetails;
  const [first] = overlaid([paused, other], "power_watts", (run) => run.id).lines;
  assert.deepEqual(first?.columns.mean, [1, 2, 3, null, null, 4, undefined, 5, 6]);
});

test("a part of a run lies within it and is not too short", () => {
  assert.deepEqual(within(-5, 20, 100), [0, 25]);
  assert.deepEqual(within(90, 120, 100), [70, 100]);
  assert.deepEqual(within(50, 50.1, 100), [49.05, 51.05]);
  assert.equal(within(0, 100, 100), null);
  assert.equal(within(0, 0.5, 1), null);
});

test("a run in words", () => {
  assert.deepEqual([7, 750, 3661, 90_000].map(sinceStart), ["0:07", "12:30", "1:01:01", "1 d 1:00:00"]);
  assert.equal(runState("device_out_of_memory").word, "out of GPU memory");
  assert.equal(runState("failed").tone, "bad");
  assert.equal(readText({ bytes: 10, of_bytes: 10 }), null);
  assert.equal(readText({ bytes: 1, of_bytes: 3_000_000 }), "reading the record: 0 % of 3.0 MB");
  assert.equal(nothingDrawn({ ...RUN, telemetry_reason: null }), null);
  assert.equal(nothingDrawn({ state: "succeeded", telemetry_reason: "too short", series: { at: [] } }), "too short");
});

test("the list asks for what the address and the search say", () => {
  assert.equal(requestOf(new URLSearchParams("tag=a&offset=50&from=3"), " h200 "), "limit=50&tag=a&search=h200&offset=50");
});
