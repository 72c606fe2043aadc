/** The pure parts of the pages about jobs. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { timeText } from "../src/pages/jobs/words";

test("a job's time is that of its command, else how long it has run or waited", () => {
  const job = { seconds: null, started: null, state: "waiting", submitted_at: 100 } as const;
  assert.equal(timeText({ ...job, seconds: 0.004, started: 100, state: "succeeded" }, 999), "4 ms");
  assert.equal(timeText({ ...job, started: 150, state: "running" }, 160), "10 s");
  assert.equal(timeText(job, 145), "45 s");
  assert.equal(timeText({ ...job, state: "cancelled" }, 145), "–");
});
