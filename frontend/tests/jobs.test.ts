/** The pure parts of the pages about jobs. */
import assert from "node:assert/strict";
import { test } from "node:test";

import type { Job, JobPage } from "../src/api/types";
import { briefProgress, progressText, whoAndProgress, workOf } from "../src/lib/progress";
import type { RunEntry } from "../src/api/types";
import { jobName, withJobs } from "../src/lib/jobs";
import { submitBody, submitCommand } from "../src/pages/jobs/wanted";
import { actsOf, awayText, overwritten, split, timeText, whereText, whyText } from "../src/pages/jobs/words";

test("a job's time is that of its command, else how long it has run or waited", () => {
  const job = { seconds: null, started: null, state: "waiting", submitted_at: 100 } as const;
  assert.equal(timeText({ ...job, seconds: 0.004, started: 100, state: "succeeded" }, 999), "4 ms");
  assert.equal(timeText({ ...job, started: 150, state: "running" }, 160), "10 s");
  assert.equal(timeText(job, 145), "45 s");
  assert.equal(timeText({ ...job, state: "cancelled" }, 145), "–");
});

test("a job that begins later says when, any other the reason of its queue", () => {
  const job = { state: "later", begin_at: Date.now() / 1000 + 60, reason: "until its --begin", error: null } as const;
  assert.match(whyText(job), /^not before \d\d:\d\d$/);
  assert.equal(whyText({ ...job, state: "waiting", begin_at: null, reason: "GPU 3 for 5 min" }), "GPU 3 for 5\u00a0min");
  assert.equal(whyText({ ...job, state: "succeeded", reason: null }), "–");
});

test("what can be done to a job depends on how it stands", () => {
  const buttons = (state: Job["state"]) => actsOf({ state, label: "7", engine: null }).map((act) => act.button);
  assert.deepEqual(buttons("waiting"), ["Cancel this job", "Move to the front", "Move to the end", "Hold"]);
  assert.deepEqual(buttons("held"), ["Cancel this job", "Move to the front", "Move to the end", "Resume"]);
  for (const state of ["waiting", "running", "failed"] as const) {
    const keys = actsOf({ state, label: "7", engine: null }).map((act) => act.key);
    assert.equal(new Set(keys).size, keys.length);
    assert.ok(keys.every((key) => !"bcpalrhtjw/?".includes(key)), "a key of the pages");
  }
  assert.deepEqual(buttons("running"), ["Cancel this job", "Move to other GPUs"]);
  for (const state of ["succeeded", "failed", "cancelled", "timed_out", "lost"] as const) assert.deepEqual(buttons(state), ["Retry"]);
  assert.deepEqual(actsOf({ state: "running", label: "7", engine: null }).map((act) => act.command), ["andon cancel 7", "andon jobs requeue 7"]);
  const there = (state: Job["state"]) => actsOf({ state, label: "lab:7", engine: "lab" }).map((act) => act.command);
  assert.deepEqual([there("running"), there("waiting"), there("failed")], [["andon cancel lab:7"], ["andon cancel lab:7"], []]);
});

test("a job of a cluster is called by its cluster, and says where it is", () => {
  const here = { engine: null, label: "12_3", number: 15, where: null, devices: ["3"] };
  assert.deepEqual([jobName(here), whereText(here), whereText({ ...here, devices: [] })], ["15", "here GPU 3", "here"]);
  const there = { ...here, engine: "lab", label: "lab:4711_7", number: 0, where: "n1 GPU 2", devices: [] };
  assert.deepEqual([jobName(there), whereText(there), whereText({ ...there, where: null })], ["lab:4711_7", "n1 GPU 2", "–"]);
});

test("a cluster that does not answer is a line, with the age of what is shown", () => {
  const lab = { name: "lab", at: null, failing_since: 100, trouble: "connection refused" };
  assert.equal(awayText(lab, 140), "lab: no answer for 40 s (connection refused); its jobs are not known");
  assert.match(awayText({ ...lab, at: 80 }, 140) ?? "", /^lab: no answer for 1 min \(connection refused\); its jobs are as of /);
  assert.equal(awayText({ ...lab, trouble: null }, 140), null);
});

test("jobs of two users with the same number are two jobs", () => {
  const job = (user: string, state: string) => ({ user, number: 1, label: "1", state, submitted_at: 1 }) as unknown as Job;
  const page = { jobs: [job("alice", "waiting"), job("bob", "waiting")] } as unknown as JobPage;
  const counts = { waiting: 0, running: 1, ended: 0 };
  const next = withJobs(page, { jobs: [job("bob", "running")], gone: [{ user: "alice", label: "1" }], whole: true, paused: false, counts });
  assert.deepEqual(next.jobs.map((one) => [one.user, one.state]), [["bob", "running"]]);
});

test("progress is told as the commands tell it, and a time that is over is not", () => {
  const progress = { step: 450, total: 1000, label: "", rate: 5, expected_end: 610 };
  assert.equal(progressText(progress, 500), "450/1000 (45 %), 1 min 50 s left");
  assert.equal(progressText({ ...progress, label: "epoch 3/10" }, 700), "450/1000 (45 %), epoch 3/10");
  assert.equal(progressText({ ...progress, step: 1000 }, 500), "1000/1000 (100 %)");
  assert.equal(progressText(null, 500), "–");
});

test("how far the work on a GPU is: of runs that go on and say it, the latest first", () => {
  const progress = { step: 450, total: 1000, label: "", rate: 5, expected_end: 610 };
  const run = (id: string, uuids: string[], more: object = {}) => ({ id, name: id, user: "ada", state: "running", progress, devices: uuids.map((uuid) => ({ uuid })), ...more }) as unknown as RunEntry;
  const found = workOf([run("late", ["a"]), run("early", ["a", "b"]), run("silent", ["b"], { progress: null }), run("over", ["c"], { state: "lost" })]);
  assert.deepEqual([...found].map(([uuid, work]) => [uuid, work.map((one) => one.run)]), [["a", ["late", "early"]], ["b", ["early"]]]);
  assert.equal(briefProgress(progress, 500), "45 %, 1 min 50 s left");
  assert.equal(briefProgress(progress, 700), "45 %", "a time that is over is not mentioned");
  assert.equal(whoAndProgress("ada · train.py", "45 %"), "ada · 45 %");
  assert.equal(whoAndProgress("ada · train.py", null), "ada · train.py");
  assert.equal(whoAndProgress("no processes", "45 %"), "45 %");
});

test("a bar that a job draws again and again is one line, as in a terminal", () => {
  assert.equal(overwritten("begin\n 10%|#\r 20%|##\r 30%|###"), "begin\n 30%|###");
  assert.equal(overwritten(" 90%|#\r100%|##\ndone\n"), "100%|##\ndone\n");
  assert.equal(overwritten("of Windows\r\nend\r\n"), "of Windows\nend\n");
  assert.equal(overwritten("\r 10%\r"), " 10%", "what was drawn last stays");
  assert.equal(overwritten("plain\n\nlines\n"), "plain\n\nlines\n");
});

test("what runs comes first, then what waits by its turn, then what is held; what has ended is apart", () => {
  const made = [
    { number: 1, state: "succeeded", position: null, submitted_at: 1 }, { number: 2, state: "held", position: null, submitted_at: 2 },
    { number: 3, state: "waiting", position: 2, submitted_at: 3 }, { number: 4, state: "waiting", position: 1, submitted_at: 4 },
    { number: 5, state: "running", position: null, submitted_at: 5 }, { number: 6, state: "waiting", position: null, submitted_at: 6 },
  ] as Job[];
  const { ahead, ended } = split(made);
  assert.deepEqual(ahead.map((job) => job.number), [5, 4, 3, 6, 2]);
  assert.deepEqual(ended.map((job) => job.number), [1]);
});

test("a job that is submitted by the form is what its command submits", () => {
  const plain = { command: "python train.py --lr 0.1", gpus: "2", memory: "20GiB", name: "first try" };
  assert.equal(submitCommand(plain, 0), "andon submit --gpus 2 --memory 20GiB --name 'first try' -- python train.py --lr 0.1");
  assert.deepEqual(submitBody(plain, 0), { command: ["python", "train.py", "--lr", "0.1"], gpus: 2, memory: "20GiB", name: "first try" });
  const shell = { command: "cd x && echo 'a b'", gpus: "1", memory: "", name: "" };
  assert.equal(submitCommand(shell, 8), String.raw`andon submit --simulate 8 --gpus 1 -- sh -c 'cd x && echo '\''a b'\'''`);
  assert.deepEqual(submitBody(shell, 8), { command: "cd x && echo 'a b'", gpus: 1, simulate: 8 });
  assert.match(submitCommand({ ...shell, command: "" }, 0), / -- COMMAND$/);
});
