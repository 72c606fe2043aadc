/** One reading of all GPUs over time: a small chart each, on the same scale. */
import { type RefObject, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { usePast } from "../api/ports";
import type { Device } from "../api/types";
import { columnsOf, roundTop } from "../charts/axis";
import { columnFrom, firstRead, scaleOf } from "../charts/data";
import { useHappened } from "../charts/happened";
import { CHOICES, topOf } from "../charts/metrics";
import type { Room } from "../charts/room";
import { Readout, Scope } from "../charts/Scope";
import { Small } from "../charts/Small";
import { count } from "../lib/format";
import type { Judged } from "../lib/judged";
import { push } from "../lib/router";
import { live, useLive, whole } from "../live/store";
import { Notice, Trouble } from "../parts/Notice";

const MOST_POINTS = 150;
const FETCH_SECONDS = 30; // the page itself has received what is newer
const MANY = 16;
const MANY_STEP_SECONDS = 5; // many charts need not move every second

interface Props {
  query: URLSearchParams;
  judged: Judged;
  search: string;
}

export function ChartsPage({ query, judged, search }: Props) {
  const { snapshot, staleSeconds } = useLive(whole);
  const choice = CHOICES.find((one) => one.metric === query.get("metric")) ?? CHOICES[0]!;
  const only = query.get("devices");
  const devices = useMemo(() => matching(snapshot?.devices ?? [], search, only), [snapshot, search, only]);
  if (!snapshot) return <p className="dim">{judged.headline}</p>;
  const put = (name: string, value: string) => {
    const next = new URLSearchParams(query);
    if (value) next.set(name, value);
    else next.delete(name);
    push(next);
  };
  const select = (
    <>
    <label>
      <span className="hidden">reading</span>
      <select value={choice.metric} onChange={(event) => put("metric", event.target.value)}>
        {CHOICES.map((one) => <option key={one.metric} value={one.metric}>{one.title}</option>)}
      </select>
    </label>
    <Only devices={snapshot.devices} only={only} put={(labels) => put("devices", labels)} />
    </>
  );
  return (
    <article className={staleSeconds === null ? undefined : "old"}>
      <div className="page-head">
        <h1>All GPUs: {choice.title}</h1>
        <p className="dim">{count(devices.length, "GPU")}, the same scale</p>
      </div>
      {devices.length === 0 ? <Notice title={search || only ? "No GPU matches" : "No GPU found"}>{only && <p>Only GPU {only} was asked for. <button type="button" onClick={() => put("devices", "")}>all GPUs</button></p>}</Notice> : (
        <Scope query={query} command={`andon history --metric ${choice.metric}`} most={MOST_POINTS} step={FETCH_SECONDS} title={choice.title} tools={select}>
          {(room) => <Smalls room={room} devices={devices} choice={choice} judged={judged} />}
        </Scope>
      )}
    </article>
  );
}

function matching(devices: Device[], search: string, only: string | null): Device[] {
  const term = search.trim().toLowerCase();
  const chosen = only?.split(",");
  return devices.filter((one) => (!chosen || chosen.includes(one.label)) && (!term || `gpu ${one.label} ${one.name} ${one.uuid}`.toLowerCase().includes(term)));
}

/** Which GPUs: all, or those that are ticked. */
function Only({ devices, only, put }: { devices: Device[]; only: string | null; put: (labels: string) => void }) {
  const chosen = only?.split(",") ?? [];
  const toggle = (label: string) => {
    const next = chosen.includes(label) ? chosen.filter((one) => one !== label) : [...chosen, label];
    put(devices.flatMap((one) => (next.includes(one.label) ? [one.label] : [])).join(","));
  };
  const close = (event: React.KeyboardEvent<HTMLDetailsElement>) => {
    if (event.key === "Escape") event.currentTarget.open = false;
  };
  return (
    <details className="only" onKeyDown={close}>
      <summary>{only ? `GPU ${chosen.join(", ")}` : "all GPUs"}</summary>
      <div role="group" aria-label="which GPUs">
        {devices.map((one) => (
          <label key={one.uuid}><input type="checkbox" checked={chosen.includes(one.label)} onChange={() => toggle(one.label)} /> {one.label}</label>
        ))}
        {only && <button type="button" onClick={() => put("")}>all</button>}
      </div>
    </details>
  );
}

interface SmallsProps {
  room: Room;
  devices: Device[];
  choice: (typeof CHOICES)[number];
  judged: Judged;
}

function Smalls({ room, devices, choice, judged }: SmallsProps) {
  const { kind, metric } = choice;
  const { before, sheets, begins } = room;
  const ago = before?.seconds ?? 0;
  const charts = usePast((past) => past.reading(metric, room.asked, room.points));
  const earlier = usePast((past) => past.reading(metric, { since: room.asked.since - ago, until: room.asked.until - ago }, room.points, before !== null)).data;
  const happened = useHappened(room.since, room.view.seconds);
  const slot = devices.length > MANY ? Math.floor(room.now / MANY_STEP_SECONDS) : room.now;
  const seen = Math.max(1, ...Object.values({ ...charts.data?.devices, ...(before && earlier ? prefixed(earlier.devices) : {}) }).flatMap((one) => one.max.map((value) => value ?? 0)));
  const wanted = Math.max(...devices.map((one) => topOf(kind, kind.limit(one)) ?? 0)) || (seen / scaleOf(metric)) * 1.08;
  const top = roundTop(wanted);
  const grid = useRef<HTMLDivElement>(null);
  const many = devices.length > MANY;
  const columns = useColumns(grid, devices.length, many);
  const shape = many ? undefined : { gridTemplateColumns: `repeat(${columns}, minmax(0, 1fr))`, "--rows": Math.ceil(devices.length / columns) } as React.CSSProperties;
  useEffect(() => {
    for (const { uuid, label } of devices) {
      sheets.set(uuid, () => {
        const found = columnFrom(charts.data?.at ?? [], charts.data?.devices[uuid], live.rings.of(uuid), metric, room.since, room.until);
        const named = (["mean", "min", "max"] as const).map((name) => [`${choice.title} ${kind.unit} ${name}`, found.columns[name]] as const);
        return { gpu: `GPU ${label}`, at: found.at, columns: Object.fromEntries(named) };
      });
    }
    return () => sheets.clear();
  });
  const fetched = charts.isPlaceholderData ? undefined : charts.data;
  useEffect(() => {
    if (!fetched) return;
    const { at, devices: read } = fetched;
    begins(metric, Math.min(...devices.map(({ uuid }) => firstRead(at, [read[uuid] ?? []].flat(), live.rings.of(uuid), room.asked.since))));
    performance.mark("andon charts");
  }, [fetched, begins]);
  return (
    <>
      {charts.error && <Trouble problem={charts.error} what="History cannot be read; showing only what this page has received" />}
      <div ref={grid} className={`smalls${many ? " many" : ""}`} style={shape}>
        {devices.map((device, place) => (
          <Small
            key={device.uuid} uuid={device.uuid} metric={metric} kind={kind} colour={choice.colour}
            lamp={judged.lamps.get(device.uuid)?.colour ?? "grey"} top={top} charts={charts.data} earlier={earlier} happened={happened}
            room={room} last={place >= devices.length - columns} whole={fetched !== undefined} stops slot={slot}
          />
        ))}
      </div>
      {/* The values stand beside the number of each GPU. */}
      <Readout mine="" width={() => room.view.seconds / room.points} told={(at) => ({ at, rows: [] })} />
    </>
  );
}

/** Under other names, so that both count for the scale. */
function prefixed<T>(found: Record<string, T>): Record<string, T> {
  return Object.fromEntries(Object.entries(found).map(([uuid, one]) => [`before ${uuid}`, one]));
}

/** How many columns the grid has: the last of each has the time below it. A few stand in rows of the same length. */
function useColumns(grid: RefObject<HTMLElement | null>, count: number, many: boolean): number {
  const [columns, setColumns] = useState(1);
  useLayoutEffect(() => {
    const element = grid.current;
    if (!element) return undefined;
    const fit = () => setColumns(many ? getComputedStyle(element).gridTemplateColumns.split(" ").length : columnsOf(element.clientWidth, count));
    const observer = new ResizeObserver(fit);
    fit();
    observer.observe(element);
    return () => observer.disconnect();
  }, [grid, count, many]);
  return columns;
}
