/** Why a device is hot, slow, full or idle: ranked reasons with their evidence. */
import { useAlerts } from "../api/ports";
import type { Reason } from "../api/types";
import { DASH, duration, gib, unbroken, words } from "../lib/format";
import { useJudged } from "../lib/judged";
import { Command } from "./Command";

export function WhyPanel({ uuid, label }: { uuid: string; label: string }) {
  const found = useAlerts((alerts) => alerts.why(uuid));
  const red = useJudged().lamps.get(uuid)?.colour === "red";
  const reasons = found.data?.devices[0]?.reasons ?? [];
  return (
    <section className={`panel why${red ? " red" : ""}`}>
      <h2>Why</h2>
      {found.error && <p className="dim">{found.error.reason}</p>}
      {found.data && reasons.length === 0 && <p className="dim">Nothing unusual in the last two minutes.</p>}
      <ol className="plain">
        {reasons.map((reason) => <ReasonRow key={reason.code + reason.sentence} reason={reason} />)}
      </ol>
      <Command text={`andon why ${label}`} />
    </section>
  );
}

function shown(value: number | string | null, unit: string): string {
  if (value === null) return DASH;
  if (typeof value === "string") return value;
  if (unit === "bytes") return `${gib(value)}\u00a0GiB`;
  return unit === "s" ? duration(value) : `${Math.round(value * 10) / 10}\u00a0${unit}`;
}

function ReasonRow({ reason }: { reason: Reason }) {
  return (
    <li className={reason.problem ? "trouble" : undefined}>
      <p>{unbroken(reason.sentence)} <span className="dim">({reason.confidence_label})</span></p>
      {reason.advice && <p className="dim">{unbroken(reason.advice)}</p>}
      <details>
        <summary>Evidence</summary>
        <ul>
          {reason.evidence.map((one) => (
            <li key={one.name}>{words(one.name.replace(/^(limits|process)\./, "$1: "))} {shown(one.value, one.unit)}</li>
          ))}
        </ul>
      </details>
    </li>
  );
}
