/** One GPU among all of them: a small chart with the scale of its neighbours. */
import { memo, useMemo } from "react";
import type { NodeCharts } from "../api/types";
import { shortName } from "../live/faces";
import type { Metric } from "../live/rings";
import { live, useDevice } from "../live/store";
import { deviceLink } from "../lib/router";
import type { Colour } from "../lib/lamps";
import { Lamp } from "../parts/Lamp";
import { placeAt, usePointed } from "./cursor";
import { columnFrom, type Columns, pointAt, type Point, summaryOf } from "./data";
import { type ChartKind, nowOf, spread, text } from "./metrics";
import type { Room } from "./room";
import { spanText } from "./Scope";
import { queryOf } from "./span";
import { Surface } from "./Surface";

const WIDTH = 300;
const HEIGHT = 60;

interface Props {
  uuid: string;
  metric: Metric;
  kind: ChartKind;
  colour: string;
  lamp: Colour;
  /** The end of the scale of all. */
  top: number;
  charts: NodeCharts | undefined;
  room: Room;
  /** Changes when it is time to draw again. */
  slot: number;
}

export const Small = memo(function Small({ uuid, metric, kind, colour, lamp, top, charts, room, slot }: Props) {
  const device = useDevice(uuid);
  const { since, until } = room;
  const ring = live.rings.of(uuid);
  const found = useMemo(
    () => columnFrom(charts?.at ?? [], charts?.devices[uuid], ring, metric, since, until),
    // `since` and `until` move every second; `slot` says when that is worth drawing.
    [charts, uuid, ring, metric, slot, room.view],
  );
  const paths = useMemo(() => pathsOf(found.at, found.columns, since, until, top), [found, top]);
  const place = (at: number) => placeAt(found.at, at, Math.max(3.5, found.width * 1.5));
  const pointed = usePointed((now) => (now === null ? null : (place(now.at) ?? -1)));
  if (!device) return null;
  const limit = kind.limit(device);
  const now = nowOf(device, metric);
  const label = live.label(uuid);
  const value = pointed === null
    ? (room.view.until === null && now !== null ? `${text(kind, now)} now` : spread(kind, summaryOf(found.columns)))
    : spread(kind, pointAt(found.columns, pointed < 0 ? null : pointed));
  return (
    <figure className="small" aria-label={`GPU ${label}: ${spread(kind, summaryOf(found.columns))}`}>
      <figcaption>
        <a href={`${deviceLink(uuid)}?${queryOf(room.view)}`}><Lamp colour={lamp} /> <b>{label}</b> <span className="dim">{shortName(device.name)}</span></a>
        <span className="value">{value}</span>
      </figcaption>
      <div className="drawn">
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          <path d={paths.band} fill={`var(${colour})`} opacity="0.22" />
          <path d={paths.line} className="line" stroke={`var(${colour})`} />
          {limit && limit.value < top && <path className="limit" d={`M0 ${height(limit.value, top)}H${WIDTH}`} />}
        </svg>
        <div className="over">
          <Surface name={`GPU ${label}`} room={room} at={found.at} told={(at) => `${spanText(at, found.width)}: ${spread(kind, pointAt(found.columns, place(at)))}`} />
        </div>
      </div>
    </figure>
  );
});

function height(value: number, top: number): string {
  return (HEIGHT - (Math.min(value, top) / top) * (HEIGHT - 1)).toFixed(1);
}

/** A line through the means and an area from least to most; a gap ends both. */
export function pathsOf(at: number[], columns: Columns, since: number, until: number, top: number): { line: string; band: string } {
  const x = (place: number) => (((at[place] as number) - since) / (until - since) * WIDTH).toFixed(1);
  let [line, band] = ["", ""];
  let run: number[] = [];
  const known = (value: Point): value is number => typeof value === "number";
  const end = () => {
    if (!run.length) return;
    line += `M${run.map((p) => `${x(p)} ${height(columns.mean[p] as number, top)}`).join("L")}${run.length === 1 ? "h0.5" : ""}`;
    const upper = run.map((p) => `${x(p)} ${height(columns.max[p] as number, top)}`);
    const lower = run.map((p) => `${x(p)} ${height(columns.min[p] as number, top)}`).reverse();
    band += `M${upper.join("L")}L${lower.join("L")}z`;
    run = [];
  };
  columns.mean.forEach((value, place) => {
    if (value === null) end();
    else if (known(value) && known(columns.max[place]) && known(columns.min[place]) && (at[place] as number) >= since) run.push(place);
  });
  end();
  return { line, band };
}
