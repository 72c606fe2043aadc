/** Leases, the queue of those waiting for GPUs, and cordoned GPUs. */
import type { Cordon, Lease, Leases, Waiting } from "../api/types";
import { useFeatures } from "../api/asking";
import { useLeases } from "../api/ports";
import { useHub } from "../api/server";
import { useTrusted } from "../lib/access";
import { count, duration, inGib } from "../lib/format";
import { deviceLink } from "../lib/router";
import { live, useLive, useSilence } from "../live/store";
import { Command } from "../parts/Command";
import { Lamp } from "../parts/Lamp";
import { LeaseRow } from "../parts/LeaseRow";
import { Loading } from "../parts/Loading";
import { Notice, Trouble } from "../parts/Notice";
import { OnNodes } from "../parts/OnNodes";
import { SignInLink } from "../parts/SignIn";
import { Free } from "../parts/Strip";
import { Take } from "../parts/Take";
import { LaterPage } from "./LaterPage";

export function LeasesPage({ name, search }: { name: string | null; search: string }) {
  const there = useFeatures()["leases"];
  const found = useLeases((leases) => leases.all());
  const old = useLive((now) => now.staleSeconds !== null);
  const silence = useSilence();
  const trusted = useTrusted();
  const list = found.data;
  const hub = useHub();
  if (there === false) {
    return <Notice title="Leases are not available on this server" whole><p>In a terminal: <Command text="andon leases" /></p></Notice>;
  }
  if (!list) return found.error ? <Trouble problem={found.error} what="Leases cannot be read" whole /> : <Loading what="leases" />;
  const shown = matching(byDevice(list.leases), search);
  return (
    <section className={old || found.error ? "old" : undefined}>
      <div className="page-head">
        <h1>Leases</h1>
        {silence === null && !hub && <p className="dim">{summary(list)}</p>}
        <Command text="andon leases" />
      </div>
      <OnNodes page="leases" own={list.devices.length > 0} />
      {found.error && <Trouble problem={found.error} what="This list is out of date: leases cannot be read now" />}
      {!trusted && (!hub || list.devices.length > 0) && <p className="dim read-only"><SignInLink to="to take, extend or give back a lease." /></p>}
      {list.devices.length > 0 && <FreeNow list={list} />}
      {list.devices.length > 0 && <LaterPage show={({ DayAhead }) => <DayAhead list={list} chosen={name} />} />}
      <LaterPage show={({ FleetWeek }) => <FleetWeek />} />
      {list.devices.length > 0 && <LaterPage show={({ WeekAhead }) => <WeekAhead list={list} />} />}
      {list.leases.length === 0 && !(hub && list.devices.length === 0) && <Empty list={list} />}
      {list.leases.length > 0 && shown.length === 0 && <Notice title="No lease matches" />}
      <ul className="leases">
        {shown.map((one, place) => (
          <LeaseRow key={one.id ?? `unreadable-${place}`} lease={one} reservations={list.reservations} at={list.at} chosen={one.id !== null && one.id === name} />
        ))}
      </ul>
      {name !== null && !list.leases.some((one) => one.id === name) && <p className="dim" role="status">Lease {name} has ended.</p>}
      {list.waiting.length > 0 && <Queue waiting={list.waiting} at={list.at} />}
      {list.cordons.length > 0 && <Cordons cordons={list.cordons} at={list.at} />}
      {list.leases.length > 0 && list.note && <p className="dim">{list.note}</p>}
      {list.book && <p className="dim book">Lease book: {list.book.path} (owner: {list.book.owner})</p>}
    </section>
  );
}

function summary(list: Leases): string {
  const people = new Set(list.leases.map((one) => one.user)).size;
  const parts = [list.leases.length ? `${count(list.leases.length, "lease")} by ${people === 1 ? "one user" : `${people} users`}` : "none"];
  if (list.waiting.length) parts.push(`${list.waiting.length} waiting`);
  if (list.cordons.length) parts.push(`${list.cordons.length} cordoned`);
  return parts.join(", ");
}

/** By their first GPU; those of unknown GPUs last. */
function byDevice(leases: Lease[]): Lease[] {
  const first = (lease: Lease) => Math.min(...lease.devices.map((one) => one.index), Infinity);
  return [...leases].sort((a, b) => first(a) - first(b) || (a.since ?? 0) - (b.since ?? 0));
}

function FreeNow({ list }: { list: Leases }) {
  const free = list.devices.filter((one) => one.kind === "free").flatMap((one) => live.device(one.uuid) ?? []);
  return (
    <div className="free-now">
      <span><Free devices={free} /></span>
      {free.length === 0 && <Command label="wait for one" text="andon run -- python train.py" />}
      <Take free={free} />
    </div>
  );
}

function matching(leases: Lease[], search: string): Lease[] {
  const term = search.trim().toLowerCase();
  if (!term) return leases;
  return leases.filter((one) => {
    const devices = one.devices.map((device) => `gpu ${device.index}`);
    return [one.id, one.user, one.whom, one.command, one.state, ...devices].some((text) => text?.toLowerCase().includes(term));
  });
}

/** No leases, or leases that cannot be read: the note says which, and suggests a command if none. */
function Empty({ list }: { list: Leases }) {
  const silence = useSilence();
  if (silence !== null) return <Notice title={list.note ?? silence} />;
  if (list.note && !list.note.includes("andon run --")) {
    return (
      <Notice title="The lease book cannot be read" tone="bad">
        <p>{list.note}</p>
        <p><Command label="details and what to do" text="andon leases" /></p>
      </Notice>
    );
  }
  return (
    <Notice title="No leases">
      <p>Nobody holds a GPU now: everyone's leases are shown here, signed in or not.</p>
      <p>A lease is a claim on GPUs that every andon command on this machine honours. It ends automatically when its job does.</p>
      <p><Command label="run on a free GPU" text="andon run -- python train.py" /></p>
    </Notice>
  );
}

function Queue({ waiting, at }: { waiting: Waiting[]; at: number }) {
  return (
    <>
      <h2>Queue</h2>
      <ol className="plain waiting">
        {waiting.map((one) => (
          <li key={`${one.position}-${one.user}-${one.since}`}>
            <b className="place">{one.position}</b> <b>{one.user}</b> requests {count(one.gpus, "GPU")}
            {one.memory_bytes !== null && ` with ${inGib(one.memory_bytes)}${one.gpus === 1 ? "" : " each"}`}
            <span className="dim"> · waiting {duration(at - one.since)}{one.jobs_behind ? ` · ${count(one.jobs_behind, "more job")} behind it` : ""}{one.gpu_hours ? ` · ${one.gpu_hours} recent GPU hours` : ""}{one.priority !== 0 && ` · priority ${one.priority}`}</span>
          </li>
        ))}
      </ol>
    </>
  );
}

function Cordons({ cordons, at }: { cordons: Cordon[]; at: number }) {
  return (
    <>
      <h2>Cordoned (out of service)</h2>
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
