/** The processes that are on a device now. */
import type { Device } from "../api/types";
import { duration, gib, known } from "../lib/format";
import { processLink, userLink } from "../lib/links";
import { lastSeen } from "../live/faces";
import { live, useLive } from "../live/store";
import { Command } from "./Command";

/** Why there is none to list: an empty list is not one that cannot be read. */
export function nobody(device: Device): string {
  if (device.state === "ok" || device.state === "asleep") return device.missing["processes"] ?? "No processes.";
  const state = device.state === "lost" ? "it is lost" : device.state === "unknown" ? device.reason : "it is not responding";
  if (!device.sample) return `Not known: ${state}, and has not been read since this server started.`;
  return `Not known: ${state}; ${lastSeen(device)}.`;
}

export function Users({ device }: { device: Device }) {
  const at = useLive((now) => now.snapshot?.at ?? 0);
  const rest = device.memory_unattributed_bytes;
  return (
    <section className="panel">
      <h2>Processes now</h2>
      {device.processes.length === 0 && <p className="dim">{nobody(device)}</p>}
      <ul className="plain holders">
        {device.processes.map((one) => (
          <li key={`${one.pid}-${one.started}-${one.kind}`}>
            <span><b>{one.user ? <a href={userLink(one.user)}>{one.user}</a> : "?"}</b> <a href={processLink(one)}>{one.program ?? `pid ${one.pid}`}</a></span>
            <span className="number">{gib(one.memory_bytes)}&nbsp;GiB</span>
            <span className="dim">
              {[`pid ${one.pid}`, one.started === null ? null : duration(at - one.started), one.container ?? one.job, known(one.utilization_percent) ? `${one.utilization_percent} %` : null]
                .filter(Boolean).join(" · ")}
            </span>
            {one.command && <code className="cut">{one.command}</code>}
          </li>
        ))}
      </ul>
      {device.pods.length > 0 && <p className="dim">Kubernetes gave it to {device.pods.join(", ")}.</p>}
      {known(rest) && rest > 50e6 && <p className="dim">{gib(rest)}&nbsp;GiB is used by processes that are not visible.</p>}
      {device.state === "ok" && <Command text={`andon ps --device ${live.label(device.uuid)}`} />}
    </section>
  );
}
