/** Columns of the list of runs: which there are, conditions on them, and how two are drawn against each other. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunEntry } from "../src/api/types";
import { axesOf, axisOf, chosenFields, conditionsOf, coursePaths, dotsOf, fieldsOf, meets, scaleOf, textOf, variedParams } from "../src/pages/runs/fields";

const run = (part: Partial<RunEntry>): RunEntry => ({ id: "a", name: "train", state: "succeeded", gpus: null, user: null, began: 0, duration_seconds: 60, mean_utilization_percent: null, peak_memory_bytes: null, energy_joules: null, energy_source: null, idle_share: null, waited_seconds: null, group: null, tags: [], command: null, last_values: {}, params: null, ...part }) as RunEntry;
const RUNS = [
  run({ params: { lr: 0.1, opt: "sgd" }, last_values: { loss: 2 }, mean_utilization_percent: 40 }),
  run({ id: "b", params: { lr: "3e-4", opt: "adamw" }, last_values: { loss: 1.5 }, peak_memory_bytes: 2 * 1024 ** 3 }),
  run({ id: "c" }),
];
const FIELDS = fieldsOf(RUNS);
const field = (id: string) => FIELDS.find((one) => one.id === id)!;

test("columns are what any run has; a parameter is a number where all of them are", () => {
  assert.deepEqual(FIELDS.map((one) => one.id), ["state", "began", "duration", "util", "value:loss", "peak", "param:lr", "param:opt"]);
  assert.deepEqual([field("param:lr").number, field("param:opt").number], [true, false]);
  assert.equal(textOf(field("peak"), RUNS[1]!), "2.0\u00a0GiB");
  assert.equal(textOf(field("peak"), RUNS[0]!), "–", "unknown is not zero");
});

test("the points of logged values stand below each other, unless the values are of very different sizes", () => {
  const texts = (losses: number[]) => {
    const runs = losses.map((loss) => run({ last_values: { loss } }));
    return runs.map((one) => textOf(fieldsOf(runs).find((field) => field.id === "value:loss")!, one));
  };
  assert.deepEqual(texts([1.39, 1.3914, 2]), ["1.390", "1.391", "2.000"]);
  assert.deepEqual(texts([1, 20]), ["1", "20"]);
  assert.deepEqual(texts([0.0012, 1234.5]), ["0.0012", "1235"]);
});

test("the address chooses columns and their order of fields; without it the usual ones and what was logged", () => {
  assert.deepEqual(chosenFields("util,nothing,param:lr", FIELDS).map((one) => one.id), ["util", "param:lr"]);
  assert.ok(chosenFields(null, FIELDS).some((one) => one.id === "value:loss"));
  assert.ok(!chosenFields(null, FIELDS).some((one) => one.id === "param:opt"));
});

test("what few runs logged is no column of all runs, unless it is chosen", () => {
  const runs = [...RUNS, run({ id: "d", last_values: { between_tokens_max: 0.1, tokens_per_second: 9 } })];
  const shown = (cols: string | null, of: RunEntry[]) => chosenFields(cols, fieldsOf(of)).map((one) => one.id).filter((id) => id.startsWith("value:"));
  assert.deepEqual(shown(null, runs), ["value:loss"]);
  assert.deepEqual(shown("value:tokens_per_second", runs), ["value:tokens_per_second"]);
  assert.deepEqual(shown(null, runs.slice(3)), ["value:between_tokens_max", "value:tokens_per_second"]);
});

test("a group is drawn by the parameters in which its runs differ, then by what came of them", () => {
  const group = [0.1, 0.01].flatMap((lr) => [1, 2].map((seed) => run({ id: `${lr} ${seed}`, params: { lr, seed, opt: "sgd", job: String(seed) }, last_values: { loss: lr + seed } })));
  const fields = fieldsOf(group);
  assert.deepEqual(variedParams(group, fields).map((one) => one.title), ["lr", "seed"]);
  assert.deepEqual(axesOf(group, fields).map((one) => one.title), ["lr", "seed", "loss", "duration"]);
  assert.deepEqual(chosenFields(null, fields, variedParams(group, fields)).map((one) => one.title), ["lr", "seed", "loss", "state", "duration"]);
  const lr = axisOf(group, fields.find((one) => one.id === "param:lr")!);
  assert.deepEqual([lr.at(group[0]!), lr.at(group[3]!), lr.at(run({ params: {} }))], [1, 0, null]);
  const words = axisOf(RUNS, field("param:opt"));
  assert.deepEqual([words.at(RUNS[0]!), words.at(RUNS[1]!), words.low], [1, 0, "adamw"]);
  const same = axisOf([group[0]!], fields.find((one) => one.id === "param:lr")!);
  assert.equal(same.at(group[0]!), 0.5);
});

test("conditions are read by name, all must hold, and an unknown value meets none", () => {
  const kept = (text: string) => RUNS.filter((one) => conditionsOf(text, FIELDS).conditions.every((each) => meets(one, each))).map((one) => one.id);
  assert.deepEqual(kept("loss<2"), ["b"]);
  assert.deepEqual(kept("loss<=2 opt=SGD"), ["a"]);
  assert.deepEqual(kept("lr=0.0003"), ["b"]);
  assert.deepEqual(kept("opt~adam"), ["b"]);
  assert.deepEqual(kept("peak>1"), ["b"]);
  assert.deepEqual(kept("util!=0"), ["a"]);
  assert.match(conditionsOf("speed>2", FIELDS).wrong ?? "", /no column is called speed/);
  assert.match(conditionsOf("loss", FIELDS).wrong ?? "", /such as util<50/);
});

test("dots are the runs that have both numbers, from left to right", () => {
  assert.deepEqual(dotsOf(RUNS, field("param:lr"), field("value:loss")).map((dot) => [dot.run.id, dot.x, dot.y]), [["b", 0.0003, 1.5], ["a", 0.1, 2]]);
});

test("a scale has round ticks around its values, of hours where it is time, and powers where it is wide", () => {
  const plain = scaleOf([1.3, 2.4]);
  assert.deepEqual([plain.ticks[0], plain.ticks.at(-1), plain.log], [1, 2.5, false]);
  assert.equal(plain.at(2.5), 1);
  assert.deepEqual(scaleOf([0.0001, 0.1]).ticks.map((tick) => tick.toPrecision(1)), ["0.0001", "0.001", "0.01", "0.1"]);
  assert.ok(scaleOf([1000, 20_000], [1, 60, 3600]).ticks.every((tick) => tick % 3600 === 0));
  const same = scaleOf([5, 5]);
  assert.ok(Number.isFinite(same.at(5)) && same.ticks.length > 1);
  assert.ok(Number.isFinite(scaleOf([0]).at(0)));
});

test("a course is a line for each stretch without a gap; a lone point is still drawn", () => {
  assert.deepEqual(coursePaths([0, 100, null, 50]), ["0.0,19.0 33.3,1.0", "100.0,10.0 100.0,10.0"]);
  assert.deepEqual(coursePaths([]), []);
});
