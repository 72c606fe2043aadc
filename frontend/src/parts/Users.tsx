/** The processes that are on a device now. */
import type { Device } from "../api/types";
import { duration, gib, known } from "../lib/format";
import { live, useLive } from "../live/store";
import { Command } from "./Command";

export function Users({ device }: { device: Device }) {
  const at = useLive((now) => now.snapshot?.at ?? 0);
  const rest = device.memory_unattributed_bytes;
  return (
    <section className="panel">
      <h2>Processes now</h2>
      {device.processes.length === 0 && <p className="dim">{device.missing["processes"] ?? "No processes."}</p>}
      <ul className="plain holders">
        {device.processes.map((one) => (
          <li key={`${one.pid}-${one.started}-${one.kind}`}>
            <span><b>{one.user ?? "?"}</b> {one.program ?? `pid ${one.pid}`}</span>
            <span className="number">{gib(one.memory_bytes)} GiB</span>
            <span className="dim">
              {[`pid ${one.pid}`, one.started === null ? null : duration(at - one.started), one.container ?? one.job, known(one.utilization_percent) ? `${one.utilization_percent} %` : null]
                .filter(Boolean).join(" · ")}
            </span>
            {one.command && <code className="cut">{one.command}</code>}
          </li>
        ))}
      </ul>
      {known(rest) && rest > 50e6 && <p className="dim">{gib(rest)} GiB is used by processes that are not visible.</p>}
      <Command text={`andon ps --device ${live.label(device.uuid)}`} />
    </section>
  );
}
