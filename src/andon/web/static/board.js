// Shows /api/snapshot once a second. Everything is set as text: names come from elsewhere.
"use strict";

const SECRET = "andon.secret";
const GIB = 1024 ** 3;
let refused = null; // why a link did not sign in: shown until the page is left, whatever else is fine
const byId = (id) => document.getElementById(id);

function make(tag, text, className) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

const known = (value) => value !== null && value !== undefined;
const shown = (value, unit, digits = 0) => (known(value) ? `${value.toFixed(digits)} ${unit}` : "–");

// A link of `andon open` carries a one-time code in its fragment, which no server ever sees.
async function signIn() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (!code) return;
  history.replaceState(null, "", location.pathname);
  const answer = await fetch("/api/session", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ code }),
  });
  const said = await answer.json();
  if (answer.ok) sessionStorage.setItem(SECRET, said.secret);
  else refused = [said.error.reason, `a new link: ${said.error.hint}`];
}

function headers() {
  const secret = sessionStorage.getItem(SECRET);
  return secret ? { Authorization: `Bearer ${secret}` } : {};
}

function trouble(reason, hint, old = Boolean(reason)) {
  const place = byId("trouble");
  place.hidden = !reason;
  place.textContent = reason ? `${reason}${hint ? ` – ${hint}` : ""}` : "";
  document.body.classList.toggle("old", old);
}

async function look() {
  try {
    const answer = await fetch("/api/snapshot", { headers: headers(), cache: "no-store" });
    const said = await answer.json();
    if (answer.status === 401 && sessionStorage.getItem(SECRET)) sessionStorage.removeItem(SECRET);
    if (!answer.ok) return trouble(said.error.reason, said.error.hint);
    show(said);
    if (refused) trouble(...refused, false);
    else trouble("");
  } catch (error) {
    trouble("the server does not answer", "what is shown is old");
  }
}

function show(snapshot) {
  const versions = Object.entries(snapshot.versions).map(([name, text]) => `${name} ${text}`);
  const time = new Date(snapshot.at * 1000).toLocaleTimeString();
  byId("node").textContent = [snapshot.node, ...versions, time].join(" · ");
  byId("simulated").hidden = !snapshot.simulated;
  byId("access").textContent = sessionStorage.getItem(SECRET) ? "signed in" : "";
  byId("devices").replaceChildren(...snapshot.devices.map(device));
  byId("lamp").className = `lamp ${worst(snapshot.devices)}`;
  document.title = `${snapshot.simulated ? "SIMULATED " : ""}${snapshot.node} – andon`;
  const host = snapshot.host;
  byId("host").textContent =
    `CPU ${shown(host.cpu_percent, "%")} · memory ${gib(host.memory_used_bytes)}/` +
    `${gib(host.memory_total_bytes)} GiB · load ${known(host.load_1m) ? host.load_1m.toFixed(1) : "–"}`;
  nothing(snapshot);
}

function nothing(snapshot) {
  const place = byId("nothing");
  const lines = snapshot.faults.map((f) => `${f.source}: ${f.reason}${f.hint ? ` – ${f.hint}` : ""}`);
  if (!snapshot.devices.length && !lines.length) lines.push("No device was found on this node.");
  if (!snapshot.devices.length) lines.push("andon doctor says why; andon serve --simulate 4 shows how it looks.");
  place.hidden = !lines.length;
  place.replaceChildren(...lines.map((line) => make("p", line, "reason")));
}

function worst(devices) {
  return ["lost", "stale", "ok", "asleep"].find((state) => devices.some((d) => d.state === state)) || "";
}

const gib = (bytes) => (known(bytes) ? (bytes / GIB).toFixed(1) : "–");

function device(one) {
  const card = make("article");
  const title = make("h2");
  title.append(make("span", undefined, `lamp ${one.state}`), `GPU ${one.index}`, make("small", one.name));
  card.append(title);
  if (one.state !== "ok") card.append(make("p", [one.state, one.reason].filter(Boolean).join(" · "), "reason"));
  if (one.hint) card.append(make("p", one.hint, "reason dim"));
  if (one.sample && one.state === "ok") card.append(...readings(one));
  if (one.processes.length) card.append(processes(one.processes));
  return card;
}

function readings(one) {
  const s = one.sample;
  const facts = [shown(s.temperature_celsius, "°C"), known(s.fan_percent) ? `fan ${s.fan_percent} %` : "",
    known(s.sm_clock_mhz) ? `${s.sm_clock_mhz} MHz` : "", (s.throttle || []).join(", ").replaceAll("_", " ")];
  return [
    reading("utilisation", s.utilization_percent, shown(s.utilization_percent, "%")),
    reading("memory", s.memory_percent, `${gib(s.memory_used_bytes)}/${gib(one.memory_total_bytes)} GiB`),
    reading("power", s.power_percent, `${known(s.power_watts) ? s.power_watts.toFixed(0) : "–"}/${shown(s.power_limit_watts, "W")}`),
    make("p", facts.filter(Boolean).join(" · "), "facts"),
  ];
}

function reading(name, percent, words) {
  const row = make("div", undefined, "reading");
  const bar = make("meter");
  bar.max = 100;
  bar.value = known(percent) ? percent : 0;
  bar.title = known(percent) ? `${percent} %` : "not known";
  row.append(make("span", name, "dim"), bar, make("span", words));
  return row;
}

function processes(list) {
  const rows = make("ul");
  for (const one of list.slice(0, 8)) {
    const row = make("li");
    const name = make("span", [one.user, one.name || `pid ${one.pid}`].filter(Boolean).join(" · "));
    name.title = one.command || `pid ${one.pid}`;
    row.append(name, make("span", known(one.memory_bytes) ? `${gib(one.memory_bytes)} GiB` : ""));
    rows.append(row);
  }
  if (list.length > 8) rows.append(make("li", `and ${list.length - 8} more`, "dim"));
  return rows;
}

async function begin() {
  try { await signIn(); } catch (error) { /* the next look tells */ }
  for (;;) {
    if (!document.hidden) await look();
    await new Promise((wake) => setTimeout(wake, 1000));
  }
}

begin();
