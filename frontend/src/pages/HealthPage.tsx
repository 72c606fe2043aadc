/** Whether the server works: in a sentence with what to do, then the figures of each part. */
import { useHealth } from "../api/server";
import { duration, vendorName } from "../lib/format";
import { advice, devicesText, healthHeadline, partName, type PartState, sentences, troublesOf } from "../lib/health";
import type { Colour } from "../lib/lamps";
import { Command } from "../parts/Command";
import { Lamp } from "../parts/Lamp";
import { Loading } from "../parts/Loading";
import { Trouble } from "../parts/Notice";

const COLOURS: Record<string, Colour> = {
  ok: "green", running: "green", degraded: "amber", late: "amber", starting: "amber", failing: "red", stopped: "red", ended: "red",
};
const OWN = new Set(["status", "version", "node", "at", "uptime_seconds", "simulated", "reason", "hint", "backends", "readers"]);

type Given = { state?: string; reason?: string | null; hint?: string | null } & Record<string, unknown>;

export function HealthPage() {
  const found = useHealth();
  const health = found.data;
  if (!health) return found.error ? <Trouble problem={found.error} what="The server's health is not available" whole /> : <Loading what="the server's health" />;
  const about = { uptime: health.uptime_seconds };
  const parts: PartState[] = (Object.entries(health) as [string, Given][]).filter(([name]) => !OWN.has(name)).map(([name, given]) => {
    const { state = "", reason = null, hint = null, ...facts } = given;
    return { name, title: partName(name), state, reason, hint, told: sentences(name, facts, about) };
  });
  const backends: PartState[] = health.backends.map((one) => ({
    name: one.name, title: one.name === "sim" ? "Simulated GPUs" : vendorName(one.name), state: one.state, reason: one.reason, hint: one.hint, told: [devicesText(one.devices)],
  }));
  const readers: PartState[] = health.readers.map((one) => ({
    name: "reader", title: "Driver reader", state: one.state, reason: null, hint: null, told: [`process ${one.pid}: the only one that calls the driver`],
  }));
  const all = [...parts, ...backends, ...readers];
  const troubles = troublesOf(all);
  const better = advice(health as Parameters<typeof advice>[0]);
  return (
    <section className={found.error ? "old" : undefined}>
      <div className="page-head">
        <Lamp colour={COLOURS[health.status] ?? "grey"} />
        <h1>{healthHeadline(all, health.status)}</h1>
        <p className="dim">andon {health.version} on {health.node ?? "this node"}, up {duration(health.uptime_seconds)}</p>
        <Command text="andon doctor" /> <Command text="andon cost" />
      </div>
      {health.reason && <p>{health.reason}{health.hint ? `: ${health.hint}` : ""}</p>}
      {troubles.length === 0 && !health.reason && <p className="in-words">{[...backends.flatMap((one) => one.told), ...parts.find((one) => one.name === "sampler")?.told.slice(0, 1) ?? [], ...parts.find((one) => one.name === "live")?.told.slice(0, 1) ?? []].join("; ")}. What is wrong with GPUs is under <a href="#/alerts">Alerts</a>.</p>}
      {troubles.map((one) => (
        <div key={one.says} className={`health-trouble ${COLOURS[health.status] ?? "grey"}`}>
          {troubles.length > 1 && <p><b>{one.says}</b></p>}
          {one.means && <p>Meanwhile {one.means}.</p>}
          <p>{one.hint ? <>What to do: {one.hint}</> : <>What to do: <Command text="andon doctor" /> says more.</>}</p>
        </div>
      ))}
      {better.length > 0 && <ul className="plain health-advice">{better.map((one) => <li key={one.text}>{one.text} <Command text={one.command} /></li>)}</ul>}
      <h2>Figures</h2>
      <ul className="parts">
        {all.map((part) => <PartRow key={part.title + part.told.join()} part={part} />)}
      </ul>
    </section>
  );
}

function PartRow({ part }: { part: PartState }) {
  return (
    <li>
      <Lamp colour={COLOURS[part.state] ?? "grey"} />
      <h3>{part.title}</h3>
      <span className="state">{part.state}</span>
      {part.reason && <p className="reason">{part.reason}{part.hint ? <span className="dim"> {part.hint}</span> : null}</p>}
      {part.told.length > 0 && <ul className="told">{part.told.map((one) => <li key={one}>{one}</li>)}</ul>}
    </li>
  );
}
