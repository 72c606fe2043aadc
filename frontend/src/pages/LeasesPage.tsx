/** Who holds which devices until when, who waits for some, and which are given to nobody. */
import type { Cordon, Lease, Leases, Waiting } from "../api/types";
import { useFeatures, useLeases } from "../api/queries";
import { useTrusted } from "../lib/access";
import { count, duration, gib } from "../lib/format";
import { deviceLink } from "../lib/router";
import { live, useLive } from "../live/store";
import { Command } from "../parts/Command";
import { Lamp } from "../parts/Lamp";
import { LeaseRow } from "../parts/LeaseRow";
import { Notice, Trouble } from "../parts/Notice";

export default function LeasesPage({ name, search }: { name: string | null; search: string }) {
  const there = useFeatures()["leases"];
  const found = useLeases();
  const old = useLive((now) => now.staleSeconds !== null);
  const trusted = useTrusted();
  const said = found.data;
  if (there === false) {
    return <Notice title="This server knows of no leases" whole><p>In a terminal: <Command text="andon leases" /></p></Notice>;
  }
  if (!said) return found.error ? <Trouble problem={found.error} what="Leases cannot be read" whole /> : <p className="dim">Looking…</p>;
  const shown = matching(said.leases, search);
  return (
    <section className={old || found.error ? "old" : undefined}>
      <div className="page-head">
        <h1>Leases</h1>
        <p className="dim">{summary(said)}</p>
        <Command text="andon leases" />
      </div>
      {found.error && <Trouble problem={found.error} what="This list is old: leases cannot be read now" />}
      {!trusted && said.leases.length > 0 && <p className="dim read-only">read-only: run <Command text="andon open" /> to extend and release.</p>}
      {said.leases.length === 0 && <Empty said={said} />}
      {said.leases.length > 0 && shown.length === 0 && <Notice title="No lease matches" />}
      <ul className="leases">
        {shown.map((one, place) => (
          <LeaseRow key={one.id ?? `unreadable-${place}`} lease={one} at={said.at} chosen={one.id !== null && one.id === name} />
        ))}
      </ul>
      {name !== null && !said.leases.some((one) => one.id === name) && <p className="dim" role="status">Lease {name} is over.</p>}
      {said.waiting.length > 0 && <Line waiting={said.waiting} at={said.at} />}
      {said.cordons.length > 0 && <Cordons cordons={said.cordons} at={said.at} />}
      {said.leases.length > 0 && said.note && <p className="dim">{said.note}</p>}
      {said.book && <p className="dim book">The book is {said.book.path}, and {said.book.owner} owns it.</p>}
    </section>
  );
}

function summary(said: Leases): string {
  const people = new Set(said.leases.map((one) => one.user)).size;
  const parts = [said.leases.length ? `${count(said.leases.length, "lease")} of ${people === 1 ? "one user" : `${people} users`}` : "none"];
  if (said.waiting.length) parts.push(`${said.waiting.length} waiting`);
  if (said.cordons.length) parts.push(`${said.cordons.length} cordoned`);
  return parts.join(", ");
}

function matching(leases: Lease[], search: string): Lease[] {
  const wanted = search.trim().toLowerCase();
  if (!wanted) return leases;
  return leases.filter((one) => {
    const devices = one.devices.map((device) => `gpu ${device.index}`);
    return [one.id, one.user, one.command, one.state, ...devices].some((text) => text?.toLowerCase().includes(wanted));
  });
}

/** Nobody holds one, or nobody can tell: the note says which. */
function Empty({ said }: { said: Leases }) {
  if (said.note && !said.note.startsWith("nobody holds a lease")) {
    return (
      <Notice title="Nobody can tell who holds what" tone="bad">
        <p>{said.note}</p>
        <p><Command label="the same, with what to do about it" text="andon leases" /></p>
      </Notice>
    );
  }
  return (
    <Notice title="Nobody holds a lease">
      <p>A lease is a claim on devices that every andon on this machine honours. It ends by itself when the work does.</p>
      <p><Command label="run on a GPU that nobody else has" text="andon run -- python train.py" /></p>
      <p><Command label="a shell that holds one for two hours" text="andon lease --gpus 1 --for 2h" /></p>
      <p><Command label="which could be had now" text="andon free" /></p>
    </Notice>
  );
}

function Line({ waiting, at }: { waiting: Waiting[]; at: number }) {
  return (
    <>
      <h2>Waiting</h2>
      <ol className="plain waiting">
        {waiting.map((one) => (
          <li key={`${one.position}-${one.user}-${one.since}`}>
            <b className="place">{one.position}</b> <b>{one.user}</b> wants {count(one.gpus, "GPU")}
            {one.memory_bytes !== null && ` with ${gib(one.memory_bytes)} GiB${one.gpus === 1 ? "" : " each"}`}
            <span className="dim"> for {duration(at - one.since)}{one.priority !== 0 && ` · priority ${one.priority}`}</span>
          </li>
        ))}
      </ol>
    </>
  );
}

function Cordons({ cordons, at }: { cordons: Cordon[]; at: number }) {
  return (
    <>
      <h2>Cordoned: given to nobody</h2>
      <ul className="plain cordons">
        {cordons.map((one) => (
          <li key={one.uuid}>
            <Lamp colour="grey" /> {one.index === null ? one.uuid : <a href={deviceLink(one.uuid)}>GPU {live.device(one.uuid) ? live.label(one.uuid) : one.index}</a>}
            {one.reason && ` ${one.reason}`}
            <span className="dim"> by {one.by}, {duration(at - one.at)} ago</span>{" "}
            <Command text={`andon uncordon ${one.index ?? one.uuid}`} />
          </li>
        ))}
      </ul>
    </>
  );
}
