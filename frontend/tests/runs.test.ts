/** The parts of the runs' pages that only compute: news, overlays, ranges, words. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunCurve, RunDetails, RunUpdate } from "../src/api/types";
import { curveLines, extended, labelsOf, onSteps, restartMarks, stepAt, stretchesOf, valueText, onOneAxis } from "../src/pages/runs/curves";
import { swatchOf } from "../src/charts/data";
import { linesOf, lookAt, meanOf, meansOf, withGaps, within, withNews } from "../src/pages/runs/data";
import { nothingDrawn, readText, requestOf, sinceStart, stateOf as runState } from "../src/pages/runs/words";

const COLUMNS_OF_RUN = { at: [0, 10], devices: { a: { power_watts: [100, null] }, b: { power_watts: [300, 200] } } };
const RUN = {
  id: "kqzvmtra", state: "running", began: 1000, read: { bytes: 50, of_bytes: 50 }, samples: 2, uses: [], duration_seconds: 10, progress: null,
  devices: [{ uuid: "a", label: "0" }, { uuid: "b", label: "1" }], series: COLUMNS_OF_RUN, curves: {},
} as unknown as RunDetails;
const newsOf = (more: object) => ({
  id: "kqzvmtra", state: "running", since_bytes: 50, read: { bytes: 90, of_bytes: 90 }, samples: 3, uses: [], marks: [], curves: {}, duration_seconds: 20, progress: { step: 3, total: 9 },
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
  const { at, lines } = onOneAxis(meansOf([RUN, other], "power_watts", (run) => run.id));
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
  const [first] = onOneAxis(meansOf([paused, other], "power_watts", (run) => run.id)).lines;
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
  assert.equal(nothingDrawn({ state: "succeeded", telemetry_reason: "too short", series: { at: [] }, curves: {} }), "too short");
});

test("the list asks for what the address and the search say", () => {
  assert.equal(requestOf(new URLSearchParams("tag=a&offset=50&from=3"), " h200 "), "limit=50&tag=a&search=h200&offset=50");
});

const curve = (more: object) => ({ at: [], last: [], low: [], mean: [], high: [], steps: [], gaps: [], restarts: [], lowest: null, highest: null, ...more }) as RunCurve;
const LOSS = curve({ at: [0, 1, 2, 3, 4], last: [5, 4, null, 3, 2], steps: [0, 10, 20, 0, 10], restarts: [3], gaps: [0, 0, 2, 0, 0] });
const LOOK = { label: "loss", colour: "--run-1" };

test("over time a curve is one line with its gaps, and over steps a line for each time that these began", () => {
  const [line, ...none] = stretchesOf(LOSS, "clock", 1000, LOOK);
  assert.deepEqual([line?.at, line?.columns.mean, none], [[1000, 1001, 1002, 1003, 1004], [5, 4, null, 3, 2], []]);
  const parts = stretchesOf(LOSS, "step", 0, LOOK);
  assert.deepEqual(parts.map((one) => [one.at, one.columns.mean]), [[[0, 10, 20], [5, 4, null]], [[0, 10], [3, 2]]]);
  const { at, lines } = onOneAxis(parts);
  assert.deepEqual(at, [0, 10, 20]);
  assert.deepEqual(lines.map((one) => one.columns.mean), [[5, 4, null], [3, 2, undefined]]);
  assert.deepEqual(restartMarks({ curves: { loss: LOSS } } as unknown as RunDetails, 1000).map((mark) => mark.at), [1003]);
});

test("runs are called by what differs between them", () => {
  const run = (id: string, params: object) => ({ id, name: "t", params, curves: {} }) as unknown as RunDetails;
  assert.deepEqual([...labelsOf([run("a", { lr: 1, n: 2, job: 1 }), run("b", { lr: 2, n: 2, job: 2 })]).values()], ["t lr=1", "t lr=2"]);
  assert.deepEqual([...labelsOf([run("a", { lr: 1 }), run("b", { lr: 1 }), run("c", { lr: 2 })]).values()], ["t a", "t b", "t lr=2"]);
});

test("epochs stand at the steps of the run, not at their own numbers", () => {
  const epochs = curve({ at: [0.5, 1.5], last: [7, 8], steps: [0, 1] });
  const run = { curves: { loss: LOSS, epochs } } as unknown as RunDetails;
  assert.deepEqual(curveLines(run, "epochs", "step", 0, LOOK).map((one) => one.at), [[5, 15]]);
  assert.deepEqual(curveLines(run, "epochs", "start", 0, LOOK).map((one) => one.at), [[0.5, 1.5]]);
});

test("a reading of a GPU stands at the step that was logged around its time", () => {
  assert.deepEqual([-1, 0, 0.5, 2, 2.5, 3.5, 5].map((at) => stepAt(LOSS, at)), [null, 0, 5, 20, null, 5, null]);
  const line = { ...LOOK, columns: { min: [1, 2, 3, 4], mean: [1, 2, 3, 4], max: [1, 2, 3, 4] } };
  assert.deepEqual(onSteps(line, [0.5, 1.5, 2.5, 3.5], LOSS).map((one) => [one.at, one.columns.mean]), [[[5, 15], [1, 2]], [[5], [4]]]);
});

test("what was logged since continues a curve once, and tells where its steps went back", () => {
  const more = curve({ at: [4, 5, 6], last: [2, 1, 9], low: [2, 0.5, 9], mean: [2, 0.8, 9], high: [2, 1, 9], steps: [10, 5, 6], lowest: { value: 0.5, at: 5, step: 5 } });
  const next = extended(LOSS, more);
  assert.deepEqual(next.at, [0, 1, 2, 3, 4, 5, 6]);
  assert.deepEqual(next.low.slice(-3), [2, 0.5, 9]);
  assert.deepEqual([next.restarts, next.gaps.length, next.lowest?.value], [[3, 5], 7, 0.5]);
  assert.equal(extended(next, more), next);
});

test("a swatch has the dashes of its line, and lines of one colour have others", () => {
  const looks = [0, 8, 16].map((place) => swatchOf(lookAt(place, "")));
  assert.equal(looks[0]?.background, "var(--run-1)");
  assert.match(String(looks[1]?.background), /^repeating-linear-gradient\(90deg, var\(--run-1\) 0 6px, transparent 6px 9px\)$/);
  assert.equal(new Set(looks.map((one) => one.background)).size, 3);
});

test("a program's own number is short at any size", () => {
  assert.deepEqual([0, 0.25557, 402_200, 1.2e-7, 3e20, -4].map(valueText), ["0", "0.2556", "402.2K", "1.20e-7", "3.00e+20", "-4"]);
});
