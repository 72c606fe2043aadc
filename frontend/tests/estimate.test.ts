/** The estimate page's pure parts. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { EstimateFit } from "../src/api/types";
import { alike, optionsOf, parameterText, partsOf, requestOf, suggested } from "../src/lib/estimating";

const FIT: EstimateFit = {
  uuid: "GPU-0", label: "0", name: "x", now: true, empty: true, needed_bytes: 25, claim_bytes: null,
  free_bytes: 50, total_bytes: 100, requests_at_once: null, reason: null,
};

test("a name is sent as a name, and the text of a config.json as JSON", () => {
  assert.deepEqual(requestOf("llama-3-8b", { tp: "2" }), { model: "llama-3-8b", options: { tp: "2" } });
  assert.deepEqual(requestOf('{"hidden_size": 1}', {}), { config: { hidden_size: 1 }, options: {} });
  assert.deepEqual(requestOf("vllm serve m-8b -tp 2", {}), { command: "vllm serve m-8b -tp 2", options: {} });
  assert.deepEqual(requestOf('{"model": "m-8b", "parameters": {}}', {}), { task: { model: "m-8b", parameters: {} }, options: {} });
  assert.deepEqual(requestOf("m-8b", {}, "4xH100"), { model: "m-8b", options: {}, on_gpus: "4xH100" });
  assert.throws(() => requestOf("{nonsense", {}), SyntaxError);
});

test("only fields that were filled in are options", () => {
  assert.deepEqual(optionsOf({ model: "m", gpus: "4xH100", tp: "2", context: "", engine: "vllm" }), { tp: "2", engine: "vllm" });
});

const NEEDS = { weights_bytes: 15, kv_bytes: 4, activations_bytes: 1, overhead_bytes: 2, gradients_bytes: null, optimizer_bytes: null, minimum_bytes: 22, comfortable_bytes: 30, claim_bytes: null };

test("a bar has what is in use, each part of the model, what the server adds, and what stays free", () => {
  const found = partsOf(FIT, NEEDS);
  assert.deepEqual(found?.parts.map((part) => [part.name, part.bytes]), [["in use", 50], ["weights", 15], ["KV cache", 4], ["activations", 1], ["overhead", 2], ["more cache", 3]]);
  assert.deepEqual([found?.free, found?.over], [25, 0]);
  assert.deepEqual(partsOf({ ...FIT, needed_bytes: 80 }, NEEDS)?.over, 30, "more than the GPU has");
  assert.equal(partsOf({ ...FIT, free_bytes: null }, NEEDS), null);
  assert.equal(partsOf({ ...FIT, total_bytes: null }, NEEDS), null);
});

test("GPUs that look the same are one row with their number", () => {
  const [first, rest] = alike([FIT, { ...FIT, uuid: "GPU-1", label: "7" }, { ...FIT, free_bytes: 10 }]);
  assert.deepEqual(first?.labels, [FIT.label, "7"], "none of them is left out");
  assert.equal(rest?.labels.length, 1);
});

test("known models are suggested by what is typed so far", () => {
  const models = ["llama-3-8b", "llama-3.1-405b", "qwen3-8b"];
  assert.deepEqual(suggested("Llama 3", models), ["llama-3-8b", "llama-3.1-405b"]);
  assert.deepEqual(suggested("llama-3-8b", models), ["llama-3-8b"], "the popular ones, to choose another");
  assert.deepEqual(suggested("mixtral", models), []);
  assert.deepEqual(suggested("", models), ["llama-3-8b"]);
});

test("parameters are counted in billions or millions", () => {
  assert.deepEqual([8_030_000_000, 70_000_000_000, 596_000_000, 65_536].map(parameterText), ["8.03 B", "70 B", "596 M", "65536"]);
});
