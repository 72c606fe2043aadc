/** Takes free GPUs for a person and a time, through the server, which holds them until then. */
import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import { send } from "../api/client";
import { useSession } from "../api/server";
import type { Device, LeaseGrant } from "../api/types";
import { useActs } from "../lib/access";
import { useChange } from "../lib/change";
import { hourOf } from "../lib/format";
import { LENGTHS, startCommand } from "../lib/holding";
import { setMe, useMe } from "../lib/me";
import { leaseLink } from "../lib/router";
import { live } from "../live/store";
import { Command } from "./Command";

const USUAL = "2h";

/** The button, and the dialog behind it; those who may not get the command. The dialog stays while
 * what is free changes: by what it does itself, or by others. */
export function Take({ free }: { free: Device[] }) {
  const trusted = useActs();
  const [offered, setOffered] = useState<Device[] | null>(null);
  const first = free[0];
  const command = first && `andon lease --devices ${live.label(first.uuid)} --for ${USUAL}`;
  return (
    <>
      {first && trusted && <button type="button" className="main" onClick={() => setOffered(free)}>Take for {USUAL.replace(/\D/, " $&")}…</button>}
      {command && <Command label={trusted ? "or take it and open a shell" : "take it and open a shell"} text={command} />}
      {offered && <TakeDialog free={offered} first={(offered[0] as Device).uuid} onClose={() => setOffered(null)} />}
    </>
  );
}

function TakeDialog({ free, first, onClose }: { free: Device[]; first: string; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  const [granted, setGranted] = useState<LeaseGrant | null>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby={id} className="take">
      <h2 id={id}>{granted ? "Taken" : "Take a GPU"}</h2>
      {granted ? <Granted lease={granted} /> : <Form free={free} first={first} onGranted={setGranted} />}
      {granted && <p className="end buttons"><button type="button" className="main" onClick={() => dialog.current?.close()}>Close</button></p>}
    </dialog>
  );
}

function Form({ free, first, onGranted }: { free: Device[]; first: string; onGranted: (lease: LeaseGrant) => void }) {
  const me = useMe();
  const change = useChange("leases");
  const [chosen, setChosen] = useState<string[]>([first]);
  const [length, setLength] = useState(USUAL);
  const session = useSession();
  const own = session?.role === "user"; // a user takes it as themselves
  const [whom, setWhom] = useState(me);
  const [purpose, setPurpose] = useState("");
  const toggle = (uuid: string) => setChosen((now) => (now.includes(uuid) ? now.filter((one) => one !== uuid) : [...now, uuid]));
  const labels = free.filter((one) => chosen.includes(one.uuid)).map((one) => live.label(one.uuid)).join(",");
  const take = (event: React.FormEvent) => {
    event.preventDefault();
    if (session?.by_token) setMe(whom);
    const seconds = LENGTHS.find((one) => one.text === length)?.seconds;
    const body = { devices: chosen, gpus: chosen.length, seconds, whom: own || whom.trim() === session?.user ? "" : whom.trim(), command: purpose.trim(), unbalanced: true };
    change.mutate(async () => onGranted(await send<LeaseGrant>("POST", "/api/leases", body)));
  };
  return (
    <form onSubmit={take} className="fields">
      <Field name={free.length === 1 ? "GPU" : "GPUs"}>
        <span className="buttons" role="group" aria-label="GPUs">
          {free.map((one) => (
            <button key={one.uuid} type="button" aria-pressed={chosen.includes(one.uuid)} onClick={() => toggle(one.uuid)} aria-label={`GPU ${live.label(one.uuid)}`}>
              {live.label(one.uuid)}
            </button>
          ))}
        </span>
      </Field>
      <Field name="for how long">
        <select value={length} onChange={(event) => setLength(event.target.value)} aria-label="for how long">
          {LENGTHS.map((one) => <option key={one.text} value={one.text}>{one.text.replace(/\D/, " $&")}</option>)}
        </select>
      </Field>
      <Field name="for whom">
        {own ? <b>{me}</b> : <input required value={whom} onChange={(event) => setWhom(event.target.value)} aria-label="for whom" maxLength={60} placeholder="user name" />}
      </Field>
      <Field name="what for"><input value={purpose} onChange={(event) => setPurpose(event.target.value)} aria-label="what for" maxLength={200} placeholder="optional" /></Field>
      <p className="dim">A lease holds the GPU until it ends or is given back: no andon command gives it to anyone else. It starts nothing.</p>
      {labels && <p><Command label="take it and open a shell" text={`andon lease --devices ${labels} --gpus ${chosen.length} --for ${length}`} /></p>}
      {change.error && <p role="alert" className="wrong">{[change.error.reason, ...change.error.details].join("; ")}</p>}
      <p className="end buttons">
        <button type="button" onClick={(event) => event.currentTarget.closest("dialog")?.close()}>Take none</button>
        <button type="submit" className="main" disabled={!chosen.length || !(own || whom.trim()) || change.isPending}>
          {change.isPending ? "Taking…" : `Take for ${length.replace(/\D/, " $&")}`}
        </button>
      </p>
    </form>
  );
}

export function Field({ name, children }: { name: string; children: ReactNode }) {
  return <div className="field"><span className="dim">{name}</span>{children}</div>;
}

function Granted({ lease }: { lease: LeaseGrant }) {
  const names = lease.devices.map((one) => (live.device(one.uuid) ? live.label(one.uuid) : String(one.index))).join(", ");
  const start = startCommand(lease.environment);
  return (
    <>
      <p><b>GPU {names}</b> {lease.devices.length === 1 ? "is" : "are"} held for {lease.whom || lease.user}{lease.until !== null && ` until ${hourOf(lease.until)}`} (<a href={leaseLink(lease.id ?? "")} onClick={(event) => event.currentTarget.closest("dialog")?.close()}>lease {lease.id}</a>).</p>
      {start && <p><Command label="open a shell there" text={start} /></p>}
      <p className="dim">Give it back on the Leases page when you are done; otherwise it ends by itself.</p>
    </>
  );
}
