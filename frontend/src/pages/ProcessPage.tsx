/** One process: what it is, its memory and use in the last minutes, and its GPUs since it started. */
import { type ReactNode, useMemo, useRef } from "react";
import { usePast } from "../api/ports";
import type { Device, Process, Snapshot } from "../api/types";
import { ChartsOfDevice } from "../charts/ChartsOfDevice";
import { Chart, type Line } from "../charts/Chart";
import { Cursor, placeAt } from "../charts/cursor";
import { GIB, type Point, pointAt } from "../charts/data";
import { type ChartKind, KINDS, spread } from "../charts/metrics";
import { Frame, Readout, Scope } from "../charts/Scope";
import { LONGEST, SHORTEST } from "../charts/span";
import { DASH, dateOf, duration, inGib, known, percent } from "../lib/format";
import { deviceLink, leaseLink, userLink } from "../lib/links";
import { beside, type Identity, identityOf, isSame, livesOf, type Use } from "../lib/people";
import { useTheme } from "../lib/theme";
import { KEPT_SECONDS } from "../live/rings";
import { live, useLive } from "../live/store";
import { Command } from "../parts/Command";
import { Loading } from "../parts/Loading";
import { Notice, Trouble } from "../parts/Notice";
import { SignInLink } from "../parts/SignIn";
import { COLOURS } from "./runs/data";

const FAR_SECONDS = 7 * 86_400;
const STEP_SECONDS = 60;
const MOST_DEVICES = 16; // of more, the snapshots of two minutes are many megabytes
const UTILISATION = KINDS[0] as ChartKind;
const MEMORY: ChartKind = { ...(KINDS[1] as ChartKind), limit: () => null };

interface There {
  device: Device;
  process: Process;
}

function thereIn(snapshot: Snapshot | null, wanted: Identity): There[] {
  return (snapshot?.devices ?? []).flatMap((device) => device.processes.filter((one) => isSame(one, wanted)).map((process) => ({ device, process })));
}

export function ProcessPage({ name, query }: { name: string; query: URLSearchParams }) {
  const wanted = useMemo(() => identityOf(name), [name]);
  const snapshot = useLive((now) => now.snapshot);
  const now = snapshot?.at ?? 0;
  const since = Math.floor(((wanted?.started ?? now - FAR_SECONDS) - 60) / STEP_SECONDS) * STEP_SECONDS;
  const uses = usePast((past) => past.usageSince(Math.max(0, since), now > 0 && wanted !== null));
  const lives = useMemo(() => (wanted ? livesOf(uses.data?.items ?? [], wanted) : []), [uses.data, wanted]);
  if (!wanted) return <Notice title="No such process" whole><p>The address has no process. See <a href="#/processes">all processes</a>.</p></Notice>;
  if (!snapshot) return <Loading what="this process" />;
  const there = thereIn(snapshot, wanted);
  const process = there[0]?.process;
  if (!process && uses.isPending) return <Loading what="this process" />;
  const last = lives[0];
  if (!process && !last) {
    return (
      <Notice title={`Process ${wanted.pid} is not known`} whole>
        <p>{uses.error ? `Who used the GPUs cannot be read: ${uses.error.reason}.` : "It is on no GPU now, and none that was recorded has this pid and start."} See <a href="#/processes">all processes</a>.</p>
      </Notice>
    );
  }
  const user = process?.user ?? last?.user ?? null;
  const began = wanted.started ?? process?.started ?? last?.first ?? null;
  const ended = process ? null : Math.max(...lives.map((one) => one.last));
  return (
    <article className="person">
      <div className="page-head">
        <h1>{process?.program ?? last?.name ?? `pid ${wanted.pid}`}</h1>
        <p className="dim">
          {user ? <>of <a href={userLink(user)}>{user}</a></> : "of an unknown user"} · pid {wanted.pid} · {ended === null
            ? (began === null ? "running" : `running for ${duration(now - began)}`)
            : `no longer on a GPU since ${dateOf(ended)}`}
        </p>
      </div>
      {uses.error && <Trouble problem={uses.error} what="Who used the GPUs cannot be read; showing this moment only" />}
      <What process={process} />
      <OnGpus there={there} lives={lives} />
      {process && <Lately wanted={wanted} there={there} />}
      <Life wanted={wanted} lives={lives} there={there} uses={uses.data?.items ?? []} began={began} ended={ended} now={now} query={query} />
    </article>
  );
}

function What({ process }: { process: Process | undefined }) {
  if (!process) return null;
  const facts: [string, ReactNode][] = [["kind", process.kind === "compute" ? null : process.kind], ["container", process.container], ["job", process.job], ["lease", process.lease && <a href={leaseLink(process.lease)}>{process.lease}</a>]];
  return (
    <>
      <p>{process.command ? <Command text={process.command} /> : <span className="dim"><SignInLink to="to see the command lines of your own processes." /></span>}</p>
      <p className="dim">{facts.filter(([, value]) => value).map(([label, value], place) => <span key={label}>{place > 0 && " · "}{label} {value}</span>)}</p>
    </>
  );
}

/** Where it is now, and where it was. */
function OnGpus({ there, lives }: { there: There[]; lives: Use[] }) {
  const uuids = [...new Set([...there.map((one) => one.device.uuid), ...lives.map((one) => one.device)])];
  return (
    <ul className="plain cards">
      {uuids.map((uuid) => {
        const now = there.filter((one) => one.device.uuid === uuid);
        const life = lives.find((one) => one.device === uuid);
        const memory = now.find((one) => known(one.process.memory_bytes))?.process.memory_bytes;
        const use = now.find((one) => known(one.process.utilization_percent))?.process.utilization_percent;
        return (
          <li key={uuid}>
            <b><a href={deviceLink(uuid)}>GPU {live.label(uuid)}</a></b> <span className="dim">{live.device(uuid)?.name}</span>
            <dl className="strip large">
              <div><dt>memory now</dt><dd>{now.length ? (known(memory) ? inGib(memory) : "not reported") : "not on it"}</dd></div>
              <div><dt>most memory</dt><dd>{known(life?.peak_memory_bytes) ? inGib(life.peak_memory_bytes) : "not recorded"}</dd></div>
              <div><dt>use now</dt><dd>{now.length ? (known(use) ? percent(use) : "not reported") : "not on it"}</dd></div>
              <div><dt>on it for</dt><dd>{life ? duration(life.last - life.first) : DASH}</dd></div>
            </dl>
          </li>
        );
      })}
    </ul>
  );
}

interface Own {
  at: number[];
  memory: Record<string, Point[]>;
  use: Record<string, Point[]>;
}

/** Its own readings, as long as this page and the server's memory have them. */
function useOwn(wanted: Identity): Own {
  const few = useLive((now) => (now.snapshot?.devices.length ?? 0) <= MOST_DEVICES);
  const snapshot = useLive((now) => now.snapshot);
  const kept = useRef<Snapshot[]>([]);
  const past = usePast((all) => all.snapshots(few)).data?.items;
  return useMemo(() => {
    if (snapshot && kept.current.at(-1)?.at !== snapshot.at) kept.current = [...kept.current, snapshot].filter((one) => one.at > snapshot.at - KEPT_SECONDS);
    const first = kept.current[0]?.at ?? Infinity;
    const all = [...(past ?? []).filter((one) => one.at < first), ...kept.current];
    const uuids = [...new Set(all.flatMap((one) => thereIn(one, wanted).map(({ device }) => device.uuid)))];
    const column = (uuid: string, pick: (process: Process) => number | null) => all.map((one) => {
      const found = thereIn(one, wanted).find(({ device }) => device.uuid === uuid);
      return found ? pick(found.process) : null;
    });
    const by = (pick: (process: Process) => number | null) => Object.fromEntries(uuids.map((uuid) => [uuid, column(uuid, pick)]));
    return {
      at: all.map((one) => one.at),
      memory: by((one) => (one.memory_bytes === null ? null : one.memory_bytes / GIB)),
      use: by((one) => one.utilization_percent),
    };
  }, [snapshot, past, wanted]);
}

const still = () => undefined;

function Lately({ wanted, there }: { wanted: Identity; there: There[] }) {
  const theme = useTheme();
  const own = useOwn(wanted);
  const cursor = useMemo(() => new Cursor(), []);
  const until = own.at.at(-1) ?? 0;
  const stage = { since: Math.min(own.at[0] ?? until, until - 120), until, select: still, zoom: still, move: still, reset: still };
  const missing = there.map((one) => one.device.missing["processes"]).find(Boolean);
  const lines = (kind: ChartKind, columns: Record<string, Point[]>): Line[] => Object.entries(columns).flatMap(([uuid, mean], place, { length }) => (
    mean.some((value) => typeof value === "number") ? [{ label: `GPU ${live.label(uuid)}`, colour: (length === 1 ? kind.lines[0]?.colour : COLOURS[place % COLOURS.length]) as string, columns: { min: mean, mean, max: mean }, now: mean.at(-1) ?? null }] : []
  ));
  const drawn = [{ kind: MEMORY, title: "Its memory", lines: lines(MEMORY, own.memory) }, { kind: UTILISATION, title: "Its use of the GPU", lines: lines(UTILISATION, own.use) }];
  const told = (at: number) => {
    const place = placeAt(own.at, at, 10);
    return place === null ? null : { at: own.at[place] as number, rows: drawn.flatMap(({ kind, title, lines: all }) => all.map((line) => ({ label: `${title.replace("Its ", "")}, ${line.label}`, colour: line.colour, value: spread(kind, pointAt(line.columns, place)) }))) };
  };
  return (
    <section>
      <h2>Its own memory and use, last minutes</h2>
      <Frame room={stage} cursor={cursor} label="the last minutes">
        <div className="charts">
          {drawn.map(({ kind, title, lines: all }) => (all.length ? (
            <Chart key={title} name={title} kind={{ ...kind, title }} at={own.at} widths={own.at.map(() => 1)} readings={[]} lines={all} limit={null} room={stage} theme={theme} brief />
          ) : <figure key={title} className="chart"><figcaption><b>{title}</b></figcaption><p className="dim">{missing ?? "the driver does not report it for this process"}</p></figure>))}
        </div>
        <Readout mine="" width={() => 0} told={told} />
      </Frame>
      <p className="dim">Values of one process are kept for minutes only; of its GPUs, everything below is recorded.</p>
    </section>
  );
}

interface LifeProps {
  wanted: Identity;
  lives: Use[];
  there: There[];
  uses: Use[];
  began: number | null;
  ended: number | null;
  now: number;
  query: URLSearchParams;
}

/** Its GPUs over its life: they are its own readings where it was alone. */
function Life({ lives, there, uses, began, ended, now, query }: LifeProps) {
  const devices = [...new Set([...there.map((one) => one.device.uuid), ...lives.map((one) => one.device)])].flatMap((uuid) => live.device(uuid) ?? []);
  const seconds = Math.round(Math.min(LONGEST, Math.max(SHORTEST, 1.03 * ((ended ?? now) - (began ?? now - 7_200)))));
  const shown = useMemo(() => {
    if (query.has("seconds")) return query;
    const next = new URLSearchParams(query);
    next.set("seconds", String(Math.ceil(seconds / 60) * 60));
    if (ended !== null) next.set("until", String(Math.ceil(ended)));
    return next;
  }, [query, ended === null ? Math.ceil(seconds / 60) : seconds, ended]);
  const first = devices[0];
  if (!first) return <p className="dim">Its GPUs are no longer present.</p>;
  return (
    <section>
      <h2>{devices.length === 1 ? "Its GPU" : "Its GPUs"} since it started</h2>
      <Scope query={shown} command={`andon history ${live.label(first.uuid)}`} title={`process ${lives[0]?.pid ?? ""}`}>
        {(room) => devices.map((device) => {
          const life = lives.find((one) => one.device === device.uuid);
          const others = life ? beside(uses, life) : null;
          return (
            <section key={device.uuid} aria-label={`GPU ${live.label(device.uuid)}`}>
              <p className="dim"><b>GPU {live.label(device.uuid)}</b>: {others === null ? "who else used it meanwhile is not known" : others.length ? `shared meanwhile with ${others.join(", ")}: the readings are those of all` : "nobody else used it meanwhile: the readings are its own"}</p>
              <ChartsOfDevice device={device} room={room} kinds={2} />
            </section>
          );
        })}
      </Scope>
    </section>
  );
}
