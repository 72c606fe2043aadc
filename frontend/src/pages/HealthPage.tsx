/** The state of each part of the server. */
import { useHealth } from "../api/queries";
import { duration, vendorName } from "../lib/format";
import { devicesText, partName, sentences } from "../lib/health";
import type { Colour } from "../lib/lamps";
import { Command } from "../parts/Command";
import { Lamp } from "../parts/Lamp";
import { Loading } from "../parts/Loading";
import { Trouble } from "../parts/Notice";

const COLOURS: Record<string, Colour> = {
  ok: "green", running: "green", degraded: "amber", late: "amber", starting: "amber", failing: "red", stopped: "red", ended: "red",
};
const TITLES: Record<string, string> = { ok: "Healthy", degraded: "Degraded", failing: "Failing" };
const OWN = new Set(["status", "version", "node", "at", "uptime_seconds", "simulated", "reason", "hint", "backends", "readers"]);

interface Part {
  title: string;
  state: string;
  reason: string | null;
  hint: string | null;
  told: string[];
}

type Given = { state?: string; reason?: string | null; hint?: string | null } & Record<string, unknown>;

export function HealthPage() {
  const found = useHealth();
  const health = found.data;
  if (!health) return found.error ? <Trouble problem={found.error} what="The server's health is not available" whole /> : <Loading what="the server's health" />;
  const about = { uptime: health.uptime_seconds };
  const parts: Part[] = (Object.entries(health) as [string, Given][]).filter(([name]) => !OWN.has(name)).map(([name, given]) => {
    const { state = "", reason = null, hint = null, ...facts } = given;
    return { title: partName(name), state, reason, hint, told: sentences(name, facts, about) };
  });
  const backends: Part[] = health.backends.map((one) => ({
    title: one.name === "sim" ? "Simulated GPUs" : vendorName(one.name), state: one.state, reason: one.reason, hint: one.hint, told: [devicesText(one.devices)],
  }));
  const readers: Part[] = health.readers.map((one) => ({
    title: "Driver reader", state: one.state, reason: null, hint: null, told: [`process ${one.pid}: the only one that calls the driver`],
  }));
  return (
    <section className={found.error ? "old" : undefined}>
      <div className="page-head">
        <Lamp colour={COLOURS[health.status] ?? "grey"} />
        <h1>{TITLES[health.status] ?? health.status}</h1>
        <p className="dim">andon {health.version} on {health.node ?? "this node"}, up {duration(health.uptime_seconds)}</p>
        <Command text="andon doctor" /> <Command text="andon cost" />
      </div>
      {health.reason && <p>{health.reason}{health.hint ? `: ${health.hint}` : ""}</p>}
      <ul className="parts">
        {[...parts, ...backends, ...readers].map((part) => <PartRow key={part.title + part.told.join()} part={part} />)}
      </ul>
    </section>
  );
}

function PartRow({ part }: { part: Part }) {
  return (
    <li>
      <Lamp colour={COLOURS[part.state] ?? "grey"} />
      <h2>{part.title}</h2>
      <span className="state">{part.state}</span>
      {part.reason && <p className="reason">{part.reason}{part.hint ? <span className="dim"> {part.hint}</span> : null}</p>}
      {part.told.length > 0 && <ul className="told">{part.told.map((one) => <li key={one}>{one}</li>)}</ul>}
    </li>
  );
}
