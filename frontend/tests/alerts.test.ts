/** Alerts, lamps, headline and health: what is listed, and in which words. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { banner } from "../src/lib/banner";
import { alertsOn, badge, gathered, listed, marks, parts, silenceText, stateOf, summary } from "../src/lib/alerting";
import { advice, devicesText, healthHeadline, missed, notifiersOf, type PartState, sentences, troublesOf } from "../src/lib/health";
import { headline, lampOf, serverLamps, shortened } from "../src/lib/lamps";
import { LiveStore } from "../src/live/store";
import { device, snapshot } from "./made";

test("alerts are listed as the server groups them, handled ones last, and the badge is the server's count", () => {
  const alert = (id: string, more: object = {}) => ({ id, rule: "thermal", message: `GPU 1 ${id}`, where: "GPU 1", state: "firing", level: "warning", device: 1, since: 0, resolved: null, no_data_since: null, affected: [], acknowledged: null, silenced_until: null, ...more });
  const alerts = [alert("a", { level: "critical" }), alert("b"), alert("c", { silenced_until: 9 }), alert("d", { state: "pending" }), ...["e", "f", "g"].map((id) => alert(id, { level: "info", rule: "idle" })), alert("h", { state: "resolved", resolved: 60 })];
  const entry = (id: string, level: string, lamp: string, related: string[] = []) => ({ id, level, lamp, related });
  const entries = [entry("a", "critical", "red", ["b"]), entry("c", "warning", "amber"), entry("d", "warning", "ring"), ...["e", "f", "g"].map((id) => entry(id, "info", "green")), entry("h", "warning", "grey")];
  const list = { alerts, entries, counts: { critical: 1, warning: 0, info: 3, pending: 1, clearing: 0, handled: 1 } } as never;
  const found = parts(listed(list));
  assert.deepEqual(found.active.map((one) => one.alert.id), ["a"]);
  assert.deepEqual(found.handled.map((one) => one.alert.id), ["c"]);
  assert.deepEqual(listed(list).map((one) => one.colour), ["red", "amber", "ring", "info", "info", "info", "grey"]);
  assert.deepEqual(found.active[0]?.related.map((one) => one.id), ["b"]);
  assert.deepEqual(found.pending.map((one) => one.alert.id), ["d"]);
  assert.deepEqual(found.past.map((one) => one.alert.id), ["h"]);
  assert.deepEqual(gathered(found.info).map((one) => one.length), [3]);
  assert.deepEqual(badge(list), { count: 1, colour: "red" });
  const none = { critical: 0, warning: 0, info: 0, pending: 0, clearing: 0, handled: 0 };
  assert.equal(badge({ counts: { ...none, handled: 2 } } as never), null);
  assert.equal(badge(undefined), null);
  assert.equal(summary({ critical: 1, warning: 2, info: 3, pending: 1, clearing: 1, handled: 2 }), "1 critical · 2 warnings · 1 pending · 1 clearing · 2 handled · 3 informational");
  assert.equal(summary(none), "no active alerts");
  assert.deepEqual(stateOf(alerts[7] as never, 120), ["ended 1 min ago", "lasted 1 min"]);
  assert.deepEqual(marks(alert("a", { acknowledged: { by: "ana", note: "on it" } }) as never), ["acknowledged by ana: on it"]);
});

test("a device's alerts are listed with what they explain, and not apart from it", () => {
  const alert = (id: string, more: object = {}) => ({ id, subject: "GPU-2", state: "firing", level: "critical", ...more }) as never;
  const [heat, slow, other, over] = [alert("heat"), alert("slow", { state: "pending" }), alert("other", { subject: "GPU-3" }), alert("over", { state: "resolved" })];
  const entry = (one: never, related: never[] = []) => ({ alert: one, level: "critical", related }) as never;
  const found = (all: never[]) => alertsOn("GPU-2", all).map((one) => [one.alert.id, ...one.related.map((two) => two.id)]);
  assert.deepEqual(found([entry(heat, [slow, over]), entry(other)]), [["heat", "slow"]]);
  assert.deepEqual(found([entry(other, [slow])]), [["slow"]], "explained by another device's");
  assert.deepEqual(found([entry(over, [])]), []);
});

test("who is notified is told, and not known is not nobody", () => {
  assert.deepEqual(notifiersOf({ notifiers: [{ name: "slack" }, { name: "mail" }] }), ["slack", "mail"]);
  assert.deepEqual(notifiersOf({ notifiers: [] }), []);
  assert.equal(notifiersOf(undefined), null);
});

test("a silence is named by what it is about", () => {
  const at = new Date(2026, 10, 15, 12, 33).getTime() / 1000;
  const rules = [{ name: "thermal", title: "Too hot" }] as never;
  const text = silenceText({ rule: "thermal", subject: "GPU-x", until: at } as never, rules, () => "GPU 2");
  assert.match(text, /^Too hot on GPU 2, until .*12:33$/);
  assert.match(silenceText({ rule: null, subject: null, until: at } as never, rules, () => null), /^Every alert, until/);
});

test("the banner has the temperature that the page shows, not that of the alert", () => {
  const lamp = { colour: "red", word: "too hot", reason: "GPU 1 is too hot: 79 °C", forWhom: "alice" } as never;
  const alert = { unit: "celsius", since: 100, value: 79, limit: 90, threshold: 70 } as never;
  const hot = device({ sample: { temperature_celsius: 73 } });
  assert.equal(banner(lamp, alert, hot, 400), "too hot for 5 min · now 73 °C (alert above 70 °C, slows down at 90 °C) · affects alice");
  assert.equal(banner(lamp, alert, device({ sample: { temperature_celsius: 91 } }), 400), "too hot for 5 min · now 91 °C (slows down at 90 °C) · affects alice");
  const idle = { colour: "amber", word: "held but idle", reason: "GPU 1 is held by alice but idle for 20 min", forWhom: "alice", by: { rule: "idle", since: 100 } } as never;
  assert.equal(banner(idle, undefined, hot, 1300), "held but idle for 20 min", "who holds it stands below");
  assert.equal(banner(lamp, undefined, hot, 400), "too hot · 79 °C · affects alice");
  assert.equal(banner({ colour: "green", word: "idle", reason: null, forWhom: null } as never, alert, hot, 400), "idle");
});

test("health is told in words with units", () => {
  assert.equal(missed(6, 294, 300), "6 readings missed in 5 min (2 %)");
  const facts = { missed: 6, snapshots: 294, sampler_cpu_seconds: 0.3, age_seconds: 0.84 };
  assert.deepEqual(sentences("sampler", facts, { uptime: 300 }), [
    "6 readings missed in 5 min (2 %)", "294 readings since the start 5 min ago",
    "CPU of the sampling loop: 0.10 % of one core", "last reading 0.8 s ago",
  ]);
  assert.deepEqual(sentences("leases", { readable: false, count: null, owner: null }, { uptime: 1 }), ["the lease book cannot be read"]);
  assert.deepEqual(sentences("of_tomorrow", { size_bytes: 1500, on: true }, { uptime: 1 }), ["size: 1.5 kB", "on: yes"]);
  assert.equal(devicesText({ ok: 6, lost: 2 }), "8 GPUs: 6 responding, 2 lost");
});

test("the server's lamp counts, unless the device's state has changed since", () => {
  const said = serverLamps({ at: 20, devices: [{ uuid: "GPU-1", index: 1, lamp: "amber", status: "too hot", reason: "GPU 1 is too hot: 90 °C", affected_user: "alice", alerts: [], lit_by: null, soon: null }] } as never);
  assert.equal(lampOf(device({}), said, 21).colour, "amber");
  assert.equal(lampOf(device({}), said, 21).forWhom, "alice");
  assert.equal(lampOf(device({ since: 21, state: "lost" }), said, 21).colour, "red");
  assert.equal(lampOf(device({ state: "asleep" }), null, 21).colour, "grey");
  assert.equal(lampOf(device({ sample: null }), null, 21).word, "no data");
  assert.equal(shortened("GPU 1 is too hot: 90 °C"), "90 °C");
  assert.equal(shortened("GPU 1 was too hot (99 °C); now 82 °C, clears after 2 min"), "99 °C; now 82 °C, clears after 2 min");
  const over = serverLamps({ at: 20, devices: [{ uuid: "GPU-1", lamp: "ring", status: "was too hot", reason: "GPU 1 was too hot (99 °C); now 72 °C, clears in 2 min", lit_by: null, soon: null, handled: false }] } as never);
  assert.deepEqual([lampOf(device({}), over, 21).colour, lampOf(device({}), over, 21).word], ["ring", "was too hot"]);
  const soon = serverLamps({ at: 20, devices: [{ uuid: "GPU-1", lamp: "ring", status: "getting too hot", reason: "GPU 1 is too hot: 91 °C (alert above 80 °C)", lit_by: null, soon: { id: "x", message: "GPU 1 is too hot: 91 °C (alert above 80 °C)", fires_in_seconds: 40 } }] } as never);
  assert.equal(lampOf(device({}), soon, 21).reason, "alert in 40 s: 91 °C (alert above 80 °C)");
  assert.equal(shortened("GPU 6:1 is thermally throttled at 89 °C"), "thermally throttled at 89 °C");
  assert.equal(shortened("GPU 0 runs 33 % below its maximum clock (up to 20 % is normal), 100 % of 3 min"), "runs 33 % below its maximum clock, 100 % of 3 min");
});

test("the headline without a server's word counts and names", () => {
  const two = [device({}), device({ uuid: "GPU-2", index: 2, state: "lost", reason: "gone" })];
  const lamps = (devices: never[]) => new Map(devices.map((one: { uuid: string }) => [one.uuid, lampOf(one as never, null, 1)]));
  assert.equal(headline(snapshot(1, two), lamps(two)).text, "GPU 2 is lost: gone");
  assert.equal(headline(snapshot(1, [two[0]]), lamps([two[0] as never])).text, "The GPU is fine");
  assert.equal(headline(snapshot(1, []), new Map()).colour, "grey");
});

test("silence is noticed by the page's own clock, and a new snapshot ends it", () => {
  let clock = 0;
  const store = new LiveStore(() => clock);
  store.received(snapshot(1000, [device({})]));
  clock = 4;
  store.tick();
  assert.equal(store.get().staleSeconds, null);
  clock = 9;
  store.tick();
  assert.equal(store.get().staleSeconds, 9);
  store.received(snapshot(1001, [device({})]));
  assert.equal(store.get().staleSeconds, null);
  store.received(snapshot(990, [device({})]));
  assert.equal(store.get().snapshot?.at, 1001, "an older one that comes late is not shown");
  store.received(snapshot(500, [device({})]));
  assert.equal(store.get().snapshot?.at, 500, "a clock that was set back does not stop the board");
});

test("health begins with a sentence about what is wrong, what it means and what to do", () => {
  const part = (name: string, state: string, reason: string | null = null, hint: string | null = null): PartState => ({ name, title: name, state, reason, hint, told: [] });
  assert.equal(healthHeadline([part("store", "ok"), part("nvidia", "absent")], "ok"), "andon works as it should");
  const full = part("store", "failing", "the disk is full", "delete something");
  assert.equal(healthHeadline([full], "failing"), "store: the disk is full");
  assert.deepEqual(troublesOf([full, part("alerts", "ok")]), [{ title: "store", says: "store: the disk is full", means: "what is shown now is right, but charts will have a gap", hint: "delete something" }]);
  assert.equal(healthHeadline([full, part("sampler", "late")], "failing"), "2 parts do not work: store, sampler");
});

test("health says what could be better: nobody is notified, readings are missed or lost, no history", () => {
  const told = (health: object) => advice({ sampler: { missed: 0, snapshots: 100 }, store: {}, ...health }).map((one) => one.command);
  assert.deepEqual(told({ alerts: { notifiers: [{ name: "ops" }] } }), []);
  assert.deepEqual(told({ alerts: { notifiers: [] }, sampler: { missed: 5, snapshots: 95 } }), ["andon alerts notify add slack URL", "andon cost"]);
  assert.deepEqual(told({ store: { dropped_snapshots: 3 } }), ["andon doctor"]);
  assert.deepEqual(advice({ sampler: { missed: 0, snapshots: 1 } }).length, 1);
});
