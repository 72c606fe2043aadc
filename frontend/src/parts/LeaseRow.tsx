/** One lease: who holds what until when, what of it is used, and how it is given back or extended. */
import { type ReactNode, useEffect, useRef, useState } from "react";
import { send } from "../api/client";
import type { Lease } from "../api/types";
import { useTrusted } from "../lib/access";
import { useChange } from "../lib/change";
import { DASH, duration, gib, hourOf, known, percent } from "../lib/format";
import { longer, whatEnds } from "../lib/holding";
import type { Colour } from "../lib/lamps";
import { deviceLink } from "../lib/router";
import { live, useLive } from "../live/store";
import { Command } from "./Command";
import { Confirm } from "./Confirm";
import { Lamp } from "./Lamp";
import { Meter } from "./Meter";

const COLOURS: Record<string, Colour> = { held: "green", orphaned: "amber", unreadable: "red" };
const MEANING: Record<string, string> = {
  orphaned: "Its holder is gone and its work lives on: the devices are given to nobody until that ends.",
  unreadable: "Somebody holds this, and it does not say which devices: nothing is given to anybody until it is let go.",
};

interface Props {
  lease: Lease;
  /** When the list was made, by the server's clock. */
  at: number;
  /** Whether the address names it. */
  chosen: boolean;
}

export function LeaseRow({ lease, at, chosen }: Props) {
  const row = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (chosen) row.current?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const meaning = MEANING[lease.state];
  return (
    <li ref={row} className={`lease ${lease.state}${chosen ? " chosen" : ""}`} data-lease={lease.id ?? ""}>
      <div className="whose">
        <h2>{lease.user} <code>{lease.id ?? DASH}</code></h2>
        <p>
          <Lamp colour={COLOURS[lease.state] ?? "grey"} /> <span className="state">{lease.state}</span>{" "}
          {lease.simulated && <span className="simulated">SIMULATED</span>}
        </p>
      </div>
      <dl>
        <Fact name={lease.devices.length === 1 ? "GPU" : "GPUs"}><Devices lease={lease} /></Fact>
        <Fact name="since">{lease.since === null ? DASH : <Age since={lease.since} at={at} />}</Fact>
        <Fact name="until"><End lease={lease} at={at} /></Fact>
        <Fact name="memory"><Memory lease={lease} /></Fact>
        <Fact name="busy">{percent(lease.utilization_percent)}</Fact>
      </dl>
      {meaning && <p className="meaning">{meaning}</p>}
      {lease.command && <code className="work" title={lease.command}>{lease.command}</code>}
      {lease.id !== null && <Actions lease={lease} id={lease.id} at={at} />}
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

/** The server's clock goes on between two lists; only what reads differently is drawn again. */
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
    return lease.until > now ? `${duration(lease.until - now)} left` : "over";
  }, at);
  if (lease.state !== "held") return <>{DASH}</>;
  if (lease.until === null) return <span className="small">{lease.kind === "library" ? "its program ends" : "its command ends"}</span>;
  return <>{hourOf(lease.until, at)} <span className="small">{left}</span></>;
}

function Memory({ lease }: { lease: Lease }) {
  const { used_bytes: used, reserved_bytes: promised } = lease;
  const whole = useLive(() => lease.devices.reduce((sum, one) => sum + (live.device(one.uuid)?.memory_total_bytes ?? NaN), 0));
  const most = promised ?? whole;
  if (!lease.devices.length) return <>{DASH}</>;
  const over = promised !== null && used > promised;
  return (
    <span className="used">
      <span>
        {gib(used)}
        <span className="small">
          {known(most) && most > 0 ? ` of ${gib(most)} GiB` : " GiB"}{promised === null ? " held whole" : " promised"}
        </span>
      </span>
      <Meter percent={known(most) && most > 0 ? (100 * used) / most : null} />
      {over && <span className="over"><Lamp colour="amber" /> more than promised</span>}
    </span>
  );
}

function Actions({ lease, id, at }: { lease: Lease; id: string; at: number }) {
  const trusted = useTrusted();
  const change = useChange("leases", "board");
  const [asking, setAsking] = useState(false);
  const lengths = lease.until === null || lease.state !== "held" ? [] : longer(lease.until, at);
  const [wanted, setWanted] = useState("");
  const length = lengths.find((one) => one.text === wanted) ?? lengths[0];
  const path = `/api/leases/${encodeURIComponent(id)}`;
  const release = () => {
    setAsking(false);
    change.mutate(() => send("DELETE", lease.fence === null ? path : `${path}?fence=${lease.fence}`));
  };
  const extend = (seconds: number) => change.mutate(() => send("POST", `${path}/renew`, { seconds, fence: lease.fence }));
  const may = trusted && lease.releasable;
  return (
    <div className="actions">
      {may && length && (
        <span role="group" aria-label={`extend ${id}`} className="buttons">
          <select value={length.text} onChange={(event) => setWanted(event.target.value)} aria-label="how long from now">
            {lengths.map((one) => <option key={one.text} value={one.text}>{one.text.replace(/\D/, " $&")} from now</option>)}
          </select>
          <button type="button" disabled={change.isPending} onClick={() => extend(length.seconds)}>Extend</button>
        </span>
      )}
      {may && <button type="button" disabled={change.isPending} onClick={() => setAsking(true)}>Release</button>}
      {!lease.releasable && lease.not_releasable_reason && <span className="dim why-not">{lease.not_releasable_reason}</span>}
      {change.isPending && <span role="status" className="dim">asking its holder…</span>}
      {change.error && <span role="alert" className="wrong">{change.error.told}</span>}
      {lease.state === "held" && (
        <span className="same">
          {length && <Command text={`andon lease extend ${id} --for ${length.text}`} />}
          <Command text={`andon release ${id}`} />
        </span>
      )}
      {asking && (
        <Confirm title={`Release ${lease.user}'s lease ${id}?`} act={lease.kind === "command" ? "End it and release" : "Release"} onAct={release} onLeave={() => setAsking(false)}>
          <p>{whatEnds(lease)}</p>
          {lease.command && <p><code>{lease.command}</code></p>}
          <p><Command label="the same" text={`andon release ${id}`} /></p>
        </Confirm>
      )}
    </div>
  );
}
