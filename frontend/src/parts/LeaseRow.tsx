/** One lease: its user, GPUs, end and actual use, and how to extend or release it. */
import { type ReactNode, useEffect, useRef, useState } from "react";
import { send } from "../api/client";
import type { Lease, Reservation } from "../api/types";
import { useActs, useMay } from "../lib/access";
import { useChange } from "../lib/change";
import { quoted } from "../lib/commands";
import { DASH, duration, gib, hourOf, known, percent } from "../lib/format";
import { longer, whatEnds } from "../lib/holding";
import type { Colour } from "../lib/lamps";
import { deviceLink } from "../lib/router";
import { endsFor } from "../lib/week";
import { live, useLive } from "../live/store";
import { Command } from "./Command";
import { Confirm } from "./Confirm";
import { Lamp } from "./Lamp";
import { Meter } from "./Meter";

const COLOURS: Record<string, Colour> = { held: "green", orphaned: "amber", unreadable: "red" };
const MEANING: Record<string, string> = {
  orphaned: "Its holder has exited but the job is still running; the GPUs stay held until it ends.",
  unreadable: "This lease is held but cannot be read, so its GPUs are unknown; no GPU is assigned until it is released.",
};

interface Props {
  lease: Lease;
  reservations: Reservation[];
  /** When the list was made, by the server's clock. */
  at: number;
  /** Whether the address names it. */
  chosen: boolean;
}

export function LeaseRow({ lease, reservations, at, chosen }: Props) {
  const row = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (chosen) row.current?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const meaning = MEANING[lease.state];
  const next = lease.state === "held" ? endsFor(lease.devices.map(({ uuid }) => uuid), lease.user, lease.until, reservations, at) : null;
  return (
    <li ref={row} className={`lease ${lease.state}${chosen ? " chosen" : ""}`} data-lease={lease.id ?? ""}>
      <div className="whose">
        <h2>{lease.whom && lease.whom !== lease.user ? <>{lease.whom} <span className="small">held by {lease.user}</span></> : lease.user} <code>{lease.id ?? DASH}</code></h2>
        <p>
          <Lamp colour={COLOURS[lease.state] ?? "grey"} /> <span className="state">{lease.state}</span>{" "}
          {lease.simulated && !live.get().snapshot?.simulated && <span className="simulated">SIMULATED</span>}
        </p>
      </div>
      <dl>
        <Fact name={lease.devices.length === 1 ? "GPU" : "GPUs"}><Devices lease={lease} /></Fact>
        <Fact name="held for">{lease.since === null ? DASH : <Age since={lease.since} at={at} />}</Fact>
        <Fact name="until"><End lease={lease} at={at} /></Fact>
        <Fact name="memory"><Memory lease={lease} /></Fact>
        <Fact name="utilisation">{percent(lease.utilization_percent)}</Fact>
      </dl>
      {next && lease.until !== null && <p className="meaning" role="note"><Lamp colour="amber" /> It ends in {duration(lease.until - at)} and cannot be extended beyond {hourOf(next.begins, at)}: {next.user} has reserved {next.name ? `its GPUs (${next.name})` : "its GPUs"}.</p>}
      {meaning && <p className="meaning">{meaning}</p>}
      {lease.kind === "network" && lease.state === "held" && lease.used_bytes === 0 && (
        <p className="meaning dim">Held but not used: its holder runs no process. No andon command gives it to anyone else until it ends.</p>
      )}
      {lease.command && <code className="work" title={lease.command}>{lease.command}</code>}
      {lease.id !== null && <LeaseActions lease={lease} id={lease.id} at={at} />}
    </li>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}

function Devices({ lease }: { lease: Lease }) {
  if (!lease.devices.length) return <>{DASH}</>;
  return (
    <span className="devices">
      {lease.devices.map((one) => {
        const label = live.device(one.uuid) ? live.label(one.uuid) : String(one.index);
        return <a key={one.uuid} href={deviceLink(one.uuid)} aria-label={`GPU ${label}`}>{label}</a>;
      })}
    </span>
  );
}

/** The server's clock advances between two lists; only text that changes is rendered again. */
function useSeconds(pick: (at: number) => string, at: number): string {
  return useLive((now) => pick(Math.max(at, now.snapshot?.at ?? 0)));
}

function Age({ since, at }: { since: number; at: number }) {
  const age = useSeconds((now) => duration(now - since), at);
  return <>{age}</>;
}

function End({ lease, at }: { lease: Lease; at: number }) {
  const left = useSeconds((now) => {
    if (lease.until === null) return "";
    return lease.until > now ? `${duration(lease.until - now)} left` : "expired";
  }, at);
  if (lease.state !== "held") return <>{DASH}</>;
  if (lease.until === null) return <span className="small">{lease.kind === "library" ? "its program ends" : "its command ends"}</span>;
  return <>{hourOf(lease.until, at)} <span className="small">{left}</span></>;
}

function Memory({ lease }: { lease: Lease }) {
  const { used_bytes: used, promised_bytes: promised } = lease;
  const whole = useLive(() => lease.devices.reduce((sum, one) => sum + (live.device(one.uuid)?.memory_total_bytes ?? NaN), 0));
  const most = promised ?? whole;
  if (!lease.devices.length) return <>{DASH}</>;
  const over = promised !== null && used > promised;
  return (
    <span className="used">
      <span>
        {gib(used)}
        <span className="small">
          {known(most) && most > 0 ? ` of ${gib(most)}\u00a0GiB` : " GiB"}{promised === null ? " used (exclusive)" : " promised"}
        </span>
      </span>
      <Meter percent={known(most) && most > 0 ? (100 * used) / most : null} />
      {over && <span className="over"><Lamp colour="amber" /> over its limit</span>}
    </span>
  );
}

const MOST_NOTE = 200;

export function LeaseActions({ lease, id, at }: { lease: Lease; id: string; at: number }) {
  const trusted = useActs();
  const change = useChange("leases");
  const [asking, setAsking] = useState(false);
  const [note, setNote] = useState("");
  const lengths = lease.until === null || lease.state !== "held" ? [] : longer(lease.until, at);
  const [selected, setSelected] = useState("");
  const length = lengths.find((one) => one.text === selected) ?? lengths[0];
  const path = `/api/leases/${encodeURIComponent(id)}`;
  const release = () => {
    setAsking(false);
    const given = new URLSearchParams(note.trim() ? { note: note.trim() } : {});
    if (lease.fence !== null) given.set("fence", String(lease.fence));
    change.mutate(() => send("DELETE", given.size ? `${path}?${given}` : path));
  };
  const extend = (seconds: number) => change.mutate(() => send("POST", `${path}/renew`, { seconds, fence: lease.fence }));
  const may = trusted && lease.releasable;
  const entitled = useMay("release", lease.user) || !trusted; // who is not known may be its owner
  return (
    <div className="actions">
      {may && length && (
        <span role="group" aria-label={`extend ${id}`} className="buttons">
          <select value={length.text} onChange={(event) => setSelected(event.target.value)} aria-label="new duration from now">
            {lengths.map((one) => <option key={one.text} value={one.text}>{one.text.replace(/\D/, " $&")} from now</option>)}
          </select>
          <button type="button" disabled={change.isPending} onClick={() => extend(length.seconds)}>Extend</button>
        </span>
      )}
      {may && <button type="button" disabled={change.isPending} onClick={() => setAsking(true)}>{lease.kind === "network" ? "Give back" : "Release"}</button>}
      {!lease.releasable && lease.not_releasable_reason && <span className="dim why-not">{lease.not_releasable_reason}</span>}
      {change.isPending && <span role="status" className="dim">waiting for its holder…</span>}
      {change.error && <span role="alert" className="wrong">{change.error.oneLine}</span>}
      {lease.state === "held" && entitled && (
        <details className="same">
          <summary>as commands</summary>
          {length && <Command text={`andon lease extend ${id} --for ${length.text}`} />}
          <Command text={`andon release ${id}`} />
        </details>
      )}
      {asking && (
        <Confirm title={`Release ${lease.whom || lease.user}'s lease ${id}?`} confirm={lease.kind === "command" ? "Stop job and release" : lease.kind === "network" ? "Give back" : "Release"} onConfirm={release} onCancel={() => setAsking(false)}>
          <p>{whatEnds(lease)}</p>
          {lease.command && <p><code>{lease.command}</code></p>}
          {lease.kind !== "network" && <p><label>Note for {lease.user} <input value={note} maxLength={MOST_NOTE} onChange={(event) => setNote(event.target.value)} placeholder="why (optional)" /></label></p>}
          <p><Command label="as a command" text={`andon release ${id}${note.trim() ? ` --note ${quoted(note.trim())}` : ""}`} /></p>
        </Confirm>
      )}
    </div>
  );
}
