/** The estimate page's pure parts. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { EstimateFit } from "../src/api/types";
import { fitParts, optionsOf, parameterText, requestOf } from "../src/lib/estimating";

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

test("a bar has what is taken, then what is needed, and never more than the GPU", () => {
  assert.deepEqual(fitParts(FIT), { taken: 50, needed: 25 });
  assert.deepEqual(fitParts({ ...FIT, needed_bytes: 900 }), { taken: 50, needed: 50 });
  assert.equal(fitParts({ ...FIT, free_bytes: null }), null);
  assert.equal(fitParts({ ...FIT, total_bytes: null }), null);
});

test("parameters are counted in billions or millions", () => {
  assert.deepEqual([8_030_000_000, 70_000_000_000, 596_000_000, 65_536].map(parameterText), ["8.03 B", "70 B", "596 M", "65536"]);
});
