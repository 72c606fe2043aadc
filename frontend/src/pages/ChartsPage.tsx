/** One reading of all GPUs over time: a small chart each, on the same scale. */
import { useMemo } from "react";
import { useNodeCharts } from "../api/queries";
import type { Device } from "../api/types";
import { scaleOf } from "../charts/data";
import { CHOICES, topOf } from "../charts/metrics";
import type { Room } from "../charts/room";
import { Readout, Scope } from "../charts/Scope";
import { Small } from "../charts/Small";
import { count } from "../lib/format";
import type { Judged } from "../lib/judged";
import { push } from "../lib/router";
import { useNow } from "../live/store";
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
  const { snapshot, staleSeconds } = useNow();
  const choice = CHOICES.find((one) => one.metric === query.get("metric")) ?? CHOICES[0]!;
  const devices = useMemo(() => matching(snapshot?.devices ?? [], search), [snapshot, search]);
  if (!snapshot) return <p className="dim">{judged.headline}</p>;
  const choose = (metric: string) => {
    const next = new URLSearchParams(query);
    next.set("metric", metric);
    push(next);
  };
  const select = (
    <label>
      <span className="hidden">reading</span>
      <select value={choice.metric} onChange={(event) => choose(event.target.value)}>
        {CHOICES.map((one) => <option key={one.metric} value={one.metric}>{one.title}</option>)}
      </select>
    </label>
  );
  return (
    <article className={staleSeconds === null ? undefined : "old"}>
      <div className="page-head">
        <h1>All GPUs: {choice.title}</h1>
        <p className="dim">{count(devices.length, "GPU")}, the same scale</p>
      </div>
      {devices.length === 0 ? <Notice title={search ? "No GPU matches" : "No GPU found"} /> : (
        <Scope query={query} command={`andon history --metric ${choice.metric}`} most={MOST_POINTS} step={FETCH_SECONDS} tools={select}>
          {(room) => <Smalls room={room} devices={devices} choice={choice} judged={judged} />}
        </Scope>
      )}
    </article>
  );
}

function matching(devices: Device[], search: string): Device[] {
  const term = search.trim().toLowerCase();
  if (!term) return devices;
  return devices.filter((one) => `gpu ${one.label} ${one.name} ${one.uuid}`.toLowerCase().includes(term));
}

interface SmallsProps {
  room: Room;
  devices: Device[];
  choice: (typeof CHOICES)[number];
  judged: Judged;
}

function Smalls({ room, devices, choice, judged }: SmallsProps) {
  const charts = useNodeCharts(choice.metric, room.asked, room.points);
  const { kind } = choice;
  const slot = devices.length > MANY ? Math.floor(room.now / MANY_STEP_SECONDS) : room.now;
  const seen = Math.max(1, ...Object.values(charts.data?.devices ?? {}).flatMap((one) => one.max.map((value) => value ?? 0)));
  const scale = seen / scaleOf(choice.metric);
  const top = Math.max(...devices.map((one) => topOf(kind, kind.limit(one)) ?? 0)) || scale * 1.08;
  return (
    <>
      {charts.error && <Trouble problem={charts.error} what="History cannot be read; showing only what this page has received" />}
      <div className={`smalls${devices.length > MANY ? " many" : ""}`}>
        {devices.map((device) => (
          <Small
            key={device.uuid} uuid={device.uuid} metric={choice.metric} kind={kind} colour={choice.colour}
            lamp={judged.lamps.get(device.uuid)?.colour ?? "grey"} top={top} charts={charts.data} room={room} slot={slot}
          />
        ))}
      </div>
      <p className="dim axis"><span>{top.toFixed(kind.digits)} {kind.unit} at the top of each</span></p>
      {/* The values stand beside the number of each GPU. */}
      <Readout mine="" width={() => room.view.seconds / room.points} told={(at) => ({ at, rows: [] })} />
    </>
  );
}
