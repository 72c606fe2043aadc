/** The board: the headline, the node's totals, and a lamp for every device. */
import { useRef } from "react";
import { useWork } from "../api/ports";
import type { Device, Snapshot } from "../api/types";
import { DeviceCharts } from "../charts/DeviceCharts";
import { Scope } from "../charts/Scope";
import { useCard } from "../lib/card";
import { useFit } from "../lib/fit";
import { filterOf, matches, passes, type Told } from "../lib/choosing";
import { duration, vendorName } from "../lib/format";
import { heldBy, idleFor } from "../lib/holding";
import { type Judged, LOADING } from "../lib/judged";
import { UNKNOWN } from "../lib/lamps";
import { useMe } from "../lib/me";
import { briefProgress, progressText, type Work } from "../lib/progress";
import { alertLink, deviceLink } from "../lib/router";
import { hostLine } from "../lib/totals";
import { live, useLive, whole } from "../live/store";
import { Card } from "../parts/Card";
import { Command } from "../parts/Command";
import { Filters } from "../parts/Filters";
import { Lamp } from "../parts/Lamp";
import { Notice } from "../parts/Notice";
import { Strip } from "../parts/Strip";
import { Tile } from "../parts/Tile";
import { Users } from "../parts/Users";
import { WhyPanel } from "../parts/WhyPanel";

const FEW = 2;

interface Props {
  judged: Judged;
  search: string;
  query: URLSearchParams;
}

export function BoardPage({ judged, search, query }: Props) {
  const { snapshot, staleSeconds } = useLive(whole);
  const old = staleSeconds !== null;
  if (!snapshot) {
    return (
      <>
        <Headline judged={judged} />
        {judged.headline === LOADING && <div className="blanks" aria-hidden="true">{BLANKS.map((key) => <i key={key} />)}</div>}
      </>
    );
  }
  if (!snapshot.devices.length) return <NoDevice snapshot={snapshot} judged={judged} />;
  const few = snapshot.devices.length <= FEW;
  return (
    <>
      <Headline judged={judged} />
      <Strip snapshot={snapshot} judged={judged} old={old} />
      <Group snapshot={snapshot} judged={judged} search={search} query={query} old={old} few={few} />
      {few && <Few devices={snapshot.devices} query={query} old={old} />}
      <Faults snapshot={snapshot} />
    </>
  );
}

/** Its height is fixed: the tiles stay where they are when it changes. */
function Headline({ judged }: { judged: Judged }) {
  const text = judged.alert === null ? judged.headline : <a href={alertLink(judged.alert)}>{judged.headline}</a>;
  return (
    <header className={`headline ${judged.colour}`}>
      <Lamp colour={judged.colour} />
      <h1>{text}</h1>
    </header>
  );
}

interface GroupProps {
  snapshot: Snapshot;
  judged: Judged;
  search: string;
  query: URLSearchParams;
  old: boolean;
  /** Their charts follow below: the tiles need not fill the page. */
  few: boolean;
  /** Nothing above them. */
  bare?: boolean;
}

export function Group({ snapshot, judged, search, query, old, few, bare = false }: GroupProps) {
  const grid = useRef<HTMLUListElement>(null);
  const found = useFit(grid, snapshot.devices.length, few);
  const { shown, point, show, hide } = useCard();
  const me = useMe();
  const work = useWork(isBusy(snapshot, judged));
  const filter = filterOf(query);
  const all: Told[] = snapshot.devices.map((device) => ({
    device, lamp: judged.lamps.get(device.uuid) ?? UNKNOWN, verdict: judged.verdicts.get(device.uuid), holders: judged.holders[device.uuid] ?? [],
  }));
  const shownOf = all.map((told) => passes(told, filter, me) && matches(told, search));
  const driver = snapshot.versions["driver"];
  return (
    <section className={`group${old ? " old" : ""}`} aria-label={snapshot.node}>
      {!bare && <div className="group-head">
        <h2>{snapshot.node}{driver && <span className="dim"> driver {driver}</span>}</h2>
        {!few && <span className="dim">lines: last {live.hours.enough ? "3\u00a0h" : "5\u00a0min"}</span>}
        {!few && <a className="more" href="#/charts">all GPUs over time</a>}
        {!few && (
          <Filters filter={filter} all={all} me={me} found={shownOf.filter(Boolean).length} narrowed={filter !== null || search.trim() !== ""} />
        )}
      </div>}
      <ul
        ref={grid}
        className={["tiles", found?.narrow && "narrow", all.some(({ device, lamp }) => lamp.colour !== "green" || work.of.has(device.uuid)) && "told"].filter(Boolean).join(" ")}
        style={{
          gridTemplateColumns: `repeat(${found?.columns ?? 1}, minmax(0, 1fr))`,
          gridAutoRows: few ? "auto" : `${found?.height ?? 100}px`,
          gap: `${found?.gap ?? 12}px`,
          visibility: found ? "visible" : "hidden",
        }}
        onPointerMove={point}
        onPointerLeave={hide}
        onFocus={(event) => event.target.matches(":focus-visible") && show(event.target)}
        onBlur={hide}
        onKeyDown={(event) => found && walk(event, found.columns)}
      >
        {all.map(({ device, lamp, verdict, holders }, place) => {
          const held = heldBy(holders);
          const idle = lamp.by?.rule === "idle";
          const latest = work.of.get(device.uuid)?.[0]?.progress;
          return (
            <Tile
              key={device.uuid}
              uuid={device.uuid}
              density={found?.density ?? "compact"}
              narrow={found?.narrow ?? false}
              tall={(found?.height ?? 0) >= (TALL * (found?.gap ?? 8)) / 8}
              colour={lamp.colour}
              word={lamp.word}
              reason={idle ? idleFor(since(lamp.by?.since ?? snapshot.at, snapshot.at), held) : lamp.reason}
              idle={idle}
              forWhom={lamp.forWhom}
              advice={lamp.by?.advice ?? device.hint}
              since={device.state === "ok" ? null : since(lamp.by?.since ?? device.since, snapshot.at)}
              acknowledged={lamp.by?.acknowledged_by ?? null}
              silenced={lamp.by?.silenced_until != null}
              held={held?.users ?? null}
              until={held?.until ?? null}
              kind={verdict?.kind ?? null}
              by={verdict?.by ?? null}
              code={verdict?.code ?? null}
              why={verdict?.reason ?? null}
              progress={latest ? progressText(latest, work.at) : null}
              brief={latest ? briefProgress(latest, work.at) : null}
              faded={!shownOf[place]}
            />
          );
        })}
      </ul>
      {shown && <Card uuid={shown.uuid} anchor={shown.anchor} lamp={judged.lamps.get(shown.uuid) ?? UNKNOWN} holders={judged.holders[shown.uuid] ?? []} verdict={judged.verdicts.get(shown.uuid)} work={work.of.get(shown.uuid) ?? NO_WORK} />}
    </section>
  );
}

/** Whether anything could say how far it is. */
function isBusy(snapshot: Snapshot, judged: Judged): boolean {
  return snapshot.devices.some((device) => device.processes.length > 0 || (judged.holders[device.uuid]?.length ?? 0) > 0);
}

/** In steps of a minute: a tile is drawn again only when its text changes. */
function since(at: number, now: number): string {
  return duration(now - at < 60 ? Math.floor((now - at) / 10) * 10 : now - at);
}

/** With one or two GPUs there is room for what is behind their tiles. */
function Few({ devices, query, old }: { devices: Device[]; query: URLSearchParams; old: boolean }) {
  const one = devices.length === 1;
  const first = devices[0] as Device;
  const command = one ? `andon history ${live.label(first.uuid)}` : "andon history";
  return (
    <Scope query={query} command={command} className={`few${one ? " one" : ""}${old ? " old" : ""}`}>
      {(room) => devices.map((device) => (
        <section key={device.uuid} className="device-page" aria-label={`GPU ${live.label(device.uuid)}`}>
          <div>
            {!one && <h2><a href={deviceLink(device.uuid)}>GPU {live.label(device.uuid)}</a></h2>}
            <DeviceCharts device={device} room={room} kinds={FEW_KINDS} />
          </div>
          <aside aria-label={`about GPU ${live.label(device.uuid)}`}>
            <WhyPanel uuid={device.uuid} label={live.label(device.uuid)} />
            <Users device={device} />
          </aside>
        </section>
      ))}
    </Scope>
  );
}

const NO_WORK: Work[] = [];
const TALL = 84; // of a small tile, whose gap is 8 at the usual size
const BLANKS = [1, 2, 3, 4, 5, 6, 7, 8]; // as in index.html
const FEW_KINDS = 4;

const STEPS: Record<string, (columns: number) => number> = {
  ArrowLeft: () => -1,
  ArrowRight: () => 1,
  ArrowUp: (columns) => -columns,
  ArrowDown: (columns) => columns,
};

function walk(event: React.KeyboardEvent<HTMLElement>, columns: number): void {
  const step = STEPS[event.key]?.(columns);
  if (step === undefined) return;
  const tiles = [...event.currentTarget.querySelectorAll<HTMLElement>("a[data-uuid]")];
  const here = tiles.indexOf(document.activeElement as HTMLElement);
  const next = here < 0 ? tiles[0] : tiles[here + step];
  next?.focus();
  event.preventDefault();
}

/** What cannot be read. */
function Faults({ snapshot }: { snapshot: Snapshot }) {
  return snapshot.faults.map((fault) => (
    <Notice key={fault.source} title={`${vendorName(fault.source)} cannot be read`} tone="bad">
      <p>{fault.reason}</p>
      {fault.hint && <p className="dim">{fault.hint}</p>}
    </Notice>
  ));
}

/** One card: that there is none, why, and what to do. */
function NoDevice({ snapshot, judged }: { snapshot: Snapshot; judged: Judged }) {
  return (
    <section className="notice none">
      <h1><Lamp colour={judged.colour} /> {judged.headline}</h1>
      {snapshot.faults.map((fault) => (
        <p key={fault.source}>{vendorName(fault.source)} cannot be read: {fault.reason}{fault.hint && <span className="dim"> ({fault.hint})</span>}</p>
      ))}
      <p>A GPU appears here by itself once it responds. {snapshot.node} itself is read:</p>
      <p className="dim">{hostLine(snapshot.host)}</p>
      <p><Command label="find out why" text="andon doctor" /></p>
      <p><Command label="try it with simulated GPUs" text="andon serve --simulate 8" /></p>
    </section>
  );
}
