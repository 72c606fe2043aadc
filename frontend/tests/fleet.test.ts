/** The fleet: sums, filters and order of nodes, which rows are drawn, and where a node's page asks. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { cellsOf, choices, chosen, colourOf, fitting, freeOf, gpusOf, gpuWords, grouped, headline, inSight, modelsOf, ordered, overAll, stripesOf, totals } from "../src/lib/fleet";
import { located } from "../src/lib/commands";
import { menu } from "../src/lib/menu";
import { below, nodeLink, nodeOf } from "../src/lib/node";

const node = (name: string, fields: object = {}) => ({
  name, state: "healthy", age_seconds: 2, gpus: 8, allocated: 6, utilization_percent: 50, memory_percent: 40, tasks: 1, reason: null, drained: false, simulated: false,
  version: "1.0", models: { H200: 8 }, holders: [], users: ["alice"], idle: 0, free: [{ model: "H200", labels: ["1", "6"], free_mib: [9, 9] }], alerts: {}, ...fields,
}) as never;
const SILENT = { state: "silent", allocated: null, utilization_percent: null, users: [], free: [], reason: "silent 40 s" };
const ROWS = [
  node("n10"),
  node("n2", { state: "sick", reason: "GPU 3: lost", utilization_percent: 0, idle: 2, users: ["bob"] }),
  node("n3", { drained: true, labels: ["big"], gpus: 4, models: { A100: 4 }, utilization_percent: 100 }),
  node("n4", SILENT),
];
const names = (rows: { name: string }[]) => rows.map((row) => row.name);
const asked = (text: string) => names(chosen(ROWS, new URLSearchParams(text)));

test("the sums count what can be acted on", () => {
  const sum = totals(ROWS);
  assert.equal(sum.gpus, 28);
  assert.equal(sum.utilization, (50 * 8 + 0 + 100 * 4) / 20, "of nodes that report");
  assert.deepEqual(sum.shows, { sick: { nodes: 1, number: 1 }, free: { nodes: 2, number: 4 }, idle: { nodes: 1, number: 2 }, silent: { nodes: 1, number: 1 } });
  assert.equal(totals([node("n4", SILENT)]).utilization, null);
  assert.equal(totals([node("n5", { ...SILENT, state: "new", reason: "it has not reported yet" })]).shows.silent.nodes, 0, "a node that was only added is not silent");
  assert.equal(freeOf(ROWS[2] as never), 0, "a drained node gives nothing");
});

test("the address says which nodes are shown", () => {
  assert.deepEqual(asked(""), ["n10", "n2", "n3", "n4"]);
  assert.deepEqual(asked("user=bob"), ["n2"]);
  assert.deepEqual(asked("model=A100"), ["n3"]);
  assert.deepEqual(asked("state=silent"), ["n4"]);
  assert.deepEqual(asked("label=drained"), ["n3"]);
  assert.deepEqual(asked("label=big"), ["n3"]);
  assert.deepEqual(asked("show=free"), ["n10", "n2"]);
  assert.deepEqual(asked("show=free&user=alice"), ["n10"]);
  assert.deepEqual(asked("q=gpu+SICK"), ["n2"], "every word, anywhere");
  assert.deepEqual(asked("show=nonsense"), ["n10", "n2", "n3", "n4"]);
  assert.deepEqual(choices(ROWS, "label"), ["big", "drained", "version 1.0"]);
});

test("what needs someone comes first, and unknown values last", () => {
  assert.deepEqual(names(ordered(ROWS, { name: "", down: false })), ["n2", "n4", "n3", "n10"]);
  assert.deepEqual(names(ordered(ROWS, { name: "node", down: true })), ["n10", "n4", "n3", "n2"]);
  assert.deepEqual(names(ordered(ROWS, { name: "util", down: true })), ["n3", "n10", "n2", "n4"]);
  assert.deepEqual(names(ordered(ROWS, { name: "util", down: false })), ["n2", "n10", "n3", "n4"]);
});

test("a lamp and the models of a node", () => {
  assert.deepEqual(ROWS.map(colourOf), ["green", "amber", "green", "grey"]);
  assert.equal(colourOf(node("n", { state: "sick", alerts: { critical: 1 } })), "red");
  assert.equal(modelsOf(node("n", { models: { A100: 2, "RTX 4090": 1 } })), "2 A100, 1 RTX 4090");
  assert.equal(modelsOf(node("n", { gpus: 4, models: { A100: 2, T4: 1, L4: 1 } })), "4 of 3 models");
});

test("of a long list only what is in sight is drawn", () => {
  assert.deepEqual(inSight(500, 40, 0, 800, 5), { first: 0, end: 25 });
  assert.deepEqual(inSight(500, 40, 4000, 800, 5), { first: 95, end: 125 });
  assert.deepEqual(inSight(500, 40, 19_600, 800, 5), { first: 485, end: 500 });
  assert.deepEqual(inSight(3, 40, -200, 800, 5), { first: 0, end: 3 });
  assert.deepEqual(inSight(3, 40, 9000, 800, 5), { first: 0, end: 3 }, "a list that became short");
});

test("the pages of a node ask about that node, and stay with it", () => {
  assert.equal(below("/api/snapshot", null), "/api/snapshot");
  assert.equal(below("/api/devices/x/why?a=1", "n 17"), "/api/nodes/n%2017/devices/x/why?a=1");
  assert.equal(nodeOf("#/node/n17/charts?t=1h"), nodeLink("n17", "#/charts?t=1h"));
  assert.equal(nodeOf("#/node/n17"), "/?node=n17#/");
  assert.equal(nodeOf("#/nodes"), null);
  const titles = (features: Record<string, boolean>) => menu({ jobs: true, ...features }).map((one) => one.title);
  assert.deepEqual(titles({ nodes: true }).slice(0, 2), ["Fleet", "Board"]);
  assert.deepEqual([titles({})[0], titles({}).at(-1)], ["Board", "Estimate"], "also of a node of a hub");
});

test("what acts on a node is typed there", () => {
  const hub = "https://hub:26366";
  assert.deepEqual(located("andon why 3", hub, "n17", "n17"), { text: `andon why 3 --node n17 --url ${hub}`, place: null });
  assert.deepEqual(located("andon jobs", hub, "n17", "n17"), { text: `andon jobs --node n17 --url ${hub}`, place: null });
  assert.equal(located("andon estimate llama-3-8b", hub, "n17", "n17").text, `andon estimate llama-3-8b --node n17 --url ${hub}`);
  for (const act of ["andon release k7qm2", "andon cancel 12", "andon jobs hold 12", "andon alerts ack 'x'", "andon lease extend k7qm2 --for 2h"]) {
    assert.deepEqual(located(act, hub, "n17", "n17"), { text: act, place: "on n17:" });
  }
  assert.deepEqual(located("andon nodes", hub, "hub", null), { text: `andon nodes --url ${hub}`, place: null });
});

test("the headline names the worst nodes, who is silent and what is free", () => {
  const said = (rows: object[]) => headline(rows as never, totals(rows as never));
  assert.deepEqual(said(ROWS), { text: "n2: GPU 3: lost\u00a0· n4 has been silent for 40 s\u00a0· 4 GPUs free on 2 nodes", colour: "amber" });
  assert.deepEqual(said([node("n1")]), { text: "2 GPUs free on 1 node", colour: "green" });
  assert.deepEqual(said([node("n4", SILENT)]), { text: "n4 has been silent for 40 s\u00a0· no GPU is free", colour: "amber" });
  const sick = (name: string, critical: number) => node(name, { state: "sick", reason: "hot", alerts: { critical }, free: [] });
  assert.deepEqual(said([sick("n1", 0), sick("n2", 0), sick("n3", 1)]), { text: "n3: hot\u00a0· n1: hot\u00a0· 1 more needs attention\u00a0· no GPU is free", colour: "red" });
  const added = node("n5", { ...SILENT, state: "new", reason: "it has not reported yet" });
  assert.deepEqual(said([added]), { text: "1 node has not reported yet\u00a0· no GPU is free", colour: "grey" });
  assert.equal(said([added, node("n1")]).colour, "green");
});

test("each GPU of a node is a square that says what it is", () => {
  const [held, broken] = gpusOf(node("n1", { gpu_states: ["3 held 87 62", "4:1 broken - -"] }));
  assert.deepEqual(held, { label: "3", state: "held", load: 87, memory: 62, slow: false });
  const [slow] = gpusOf(node("n1", { gpu_states: ["3 free 0 1"], slow: ["3"] }));
  assert.equal(gpuWords(slow as never), "GPU 3: free, 0\u00a0% busy, memory 1\u00a0%, slow by its last check");
  assert.equal(gpuWords(held as never), "GPU 3: held, 87\u00a0% busy, memory 62\u00a0%");
  assert.equal(gpuWords(broken as never), "GPU 4:1: needs help now");
  assert.deepEqual(gpusOf(node("n1")), [], "an older node does not say");
  assert.equal(colourOf(node("n1", { state: "sick", gpu_states: ["0 broken - -"] })), "red");
});

test("nodes on a map are grouped by what they are", () => {
  const titles = (by: "model" | "state" | "version" | null) => grouped(ROWS, by).map(([title, rows]) => [title, names(rows).join()]);
  assert.deepEqual(titles(null), [["", "n10,n2,n3,n4"]]);
  assert.deepEqual(titles("model"), [["A100", "n3"], ["H200", "n10,n2,n4"]]);
  assert.deepEqual(titles("state"), [["sick", "n2"], ["silent", "n4"], ["healthy", "n10,n3"]]);
  assert.deepEqual(titles("version"), [["andon 1.0", "n10,n2,n3,n4"]]);
});

test("cells fill a place with every node", () => {
  for (const [count, width, height] of [[1, 1000, 500], [12, 390, 700], [500, 1240, 520], [500, 3800, 1400]] as const) {
    const { columns, lines } = cellsOf(count, width, height);
    assert.ok(columns * lines >= count && columns * (lines - 1) < count, `${count}: ${columns} × ${lines}`);
  }
});

test("the mean of all nodes counts GPUs, and a gap stays one", () => {
  const rows = [node("n1", { gpus: 8 }), node("n2", { gpus: 2 }), node("n3", { gpus: 8 })];
  const lines = new Map<string, (number | null)[]>([["n1", [50, null, 10]], ["n2", [100, null, null]], ["n3", []]]);
  assert.deepEqual(overAll(rows, lines), [60, null, 10]);
  assert.deepEqual(overAll(rows, new Map()), []);
});

test("a model is placed where enough GPUs have room, the smallest room first", () => {
  const free = (labels: string[], mib: number) => [{ model: "H200", labels, free_mib: labels.map(() => mib) }];
  const rows = [
    node("n1", { free: free(["0", "1", "2"], 80_000) }), node("n2", { free: free(["4", "5"], 80_000) }), node("n3", { free: free(["0", "1"], 1_000) }),
    node("n4", { free: free(["0", "1"], 80_000), drained: true }),
  ];
  assert.deepEqual(fitting(rows, 40 * 1024 ** 3, 2).map((one) => one.node), ["n2", "n1"]);
});

test("a node's GPUs are one background", () => {
  const found = stripesOf(node("n1", { gpu_states: ["0 free 0 1", "1 broken - -"] })) ?? "";
  assert.ok(found.indexOf("--green") > 0 && found.indexOf("--green") < found.indexOf("--red-lamp"));
  assert.equal(stripesOf(node("n1", { gpu_states: [] })), undefined);
});
