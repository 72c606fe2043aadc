/** The state of each part of the server. */
import { useHealth } from "../api/queries";
import { bytes, dateOf, duration, words } from "../lib/format";
import type { Colour } from "../lib/lamps";
import { Command } from "../parts/Command";
import { Lamp } from "../parts/Lamp";
import { Trouble } from "../parts/Notice";

const COLOURS: Record<string, Colour> = {
  ok: "green", running: "green", degraded: "amber", late: "amber", starting: "amber", failing: "red", stopped: "red",
};
const TITLES: Record<string, string> = { ok: "Healthy", degraded: "Degraded", failing: "Failing" };
const OWN = new Set(["status", "version", "node", "at", "uptime_seconds", "simulated", "reason", "hint", "backends", "readers"]);

interface Part {
  state?: string;
  reason?: string | null;
  hint?: string | null;
  [fact: string]: unknown;
}

export function HealthPage() {
  const found = useHealth();
  const health = found.data;
  if (!health) return found.error ? <Trouble problem={found.error} what="The server's health is not available" whole /> : <p className="dim">Loading…</p>;
  const parts = Object.entries(health).filter(([name]) => !OWN.has(name)) as [string, Part][];
  const readers: [string, Part][] = health.readers.map((one) => [`reader ${one.pid}`, { state: one.state }]);
  const backends: [string, Part][] = health.backends.map((one) => {
    const { name, devices, ...rest } = one;
    return [`backend ${name}`, { ...rest, ...devices }];
  });
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
        {[...parts, ...backends, ...readers].map(([name, part]) => <PartRow key={name} name={name} part={part} />)}
      </ul>
    </section>
  );
}

function PartRow({ name, part }: { name: string; part: Part }) {
  const { state = "", reason, hint, ...facts } = part;
  const shown = Object.entries(facts).filter(([, value]) => value !== null && typeof value !== "object");
  return (
    <li>
      <Lamp colour={COLOURS[state] ?? "grey"} />
      <h2>{words(name)}</h2>
      <span className="state">{state}</span>
      {reason && <p className="reason">{reason}{hint ? <span className="dim"> {hint}</span> : null}</p>}
      <dl>
        {shown.map(([fact, value]) => (
          <div key={fact}><dt>{words(fact.replace(/_(seconds|bytes)$/, ""))}</dt><dd>{factText(fact, value)}</dd></div>
        ))}
      </dl>
    </li>
  );
}

function factText(name: string, value: unknown): string {
  if (typeof value !== "number") return String(value);
  if (name === "flushed" || name === "since") return dateOf(value);
  if (name.endsWith("_seconds")) return value < 120 ? `${value.toFixed(value < 10 ? 2 : 0)} s` : duration(value);
  if (name.endsWith("_bytes")) return bytes(value);
  return value.toLocaleString();
}
