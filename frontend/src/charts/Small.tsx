/** One GPU among all of them: a small chart with the scale of its neighbours. */
import { memo, useMemo } from "react";
import type { NodeCharts } from "../api/types";
import { shortName } from "../live/faces";
import type { Metric } from "../live/rings";
import { live, useLive } from "../live/store";
import { deviceLink } from "../lib/router";
import type { Colour } from "../lib/lamps";
import { Lamp } from "../parts/Lamp";
import { placeAt, usePointed } from "./cursor";
import { padded, timeTicks } from "./axis";
import { columnFrom, type Columns, pointAt, type Point, scaleOf, summaryOf } from "./data";
import { gapsOf, whyGap } from "./gaps";
import type { Happened } from "./happened";
import { marksOn } from "./marks";
import { Marks } from "./MarkList";
import { type ChartKind, nowOf, spread, text } from "./metrics";
import type { Room } from "./room";
import { spanText } from "./Scope";
import { queryOf } from "./span";
import { Surface } from "./Surface";

const WIDTH = 300;
const HEIGHT = 60;
const SHOWN_PIXELS = 110; // about

interface Props {
  uuid: string;
  metric: Metric;
  kind: ChartKind;
  colour: string;
  lamp: Colour;
  /** The end of the scale of all. */
  top: number;
  charts: NodeCharts | undefined;
  /** The same a day or a week before, if that is compared. */
  earlier: NodeCharts | undefined;
  happened: Happened;
  room: Room;
  /** Whether it is the last of its column, below which the time stands. */
  last: boolean;
  /** Whether what was asked for is here: until then nothing is missing. */
  whole: boolean;
  stops: boolean;
  /** Changes when it is time to draw again. */
  slot: number;
}

export const Small = memo(function Small({ uuid, metric, kind, colour, lamp, top, charts, earlier, happened, room, last, whole, stops, slot }: Props) {
  const device = useLive((_, store) => store.device(uuid));
  const { since, until } = room;
  const ring = live.rings.of(uuid);
  const found = useMemo(
    () => columnFrom(charts?.at ?? [], charts?.devices[uuid], ring, metric, since, until),
    // `since` and `until` move every second; `slot` says when that is worth drawing.
    [charts, uuid, ring, metric, slot, room.view],
  );
  const paths = useMemo(() => pathsOf(found.at, found.columns, since, until, top), [found, top]);
  const { before } = room;
  const past = useMemo(() => {
    const band = earlier?.devices[uuid];
    if (!before || !band) return null;
    const columns = Object.fromEntries(Object.entries(band).map(([name, values]) => [name, values.map((value) => (value === null ? null : value / scaleOf(metric)))])) as unknown as Columns;
    return { columns, at: earlier.at.map((at) => at + before.seconds) };
  }, [earlier, before, uuid, metric]);
  const ghost = useMemo(() => (past ? pathsOf(past.at, past.columns, since, until, top).line : ""), [past, top, slot, room.view]);
  const marks = useMemo(() => marksOn(happened.marks, uuid), [happened, uuid]);
  const place = (at: number) => placeAt(found.at, at, Math.max(3.5, found.width * 1.5));
  const pointed = usePointed((now) => (now === null ? null : (place(now.at) ?? -now.at))); // negative: an instant without a reading
  const gapAt = pointed === null ? null : pointed < 0 ? -pointed : (found.at[pointed] as number);
  if (!device) return null;
  const limit = kind.limit(device);
  const widths = found.at.map((_, index) => (index < (charts?.at.length ?? 0) ? found.width : 1));
  const others = (gap: { since: number; until: number }) => (readBeside(charts, uuid, gap) ? "node" as const : null);
  const gaps = !whole ? [] : gapsOf(found.at, found.columns.mean, widths, since, until).map((gap) => ({
    ...gap, why: whyGap(gap, metric, { device, alerts: happened.alerts, since, now: room.now, others }),
  }));
  const shareOf = (at: number) => (at - since) / (until - since);
  const now = nowOf(device, metric);
  const label = live.label(uuid);
  const gap = gapAt === null ? undefined : gaps.find((one) => gapAt >= one.since && gapAt < one.until);
  const then = gapAt === null || !past ? null : pointAt(past.columns, placeAt(past.at, gapAt, Infinity));
  const value = pointed === null
    ? (room.view.until === null && now !== null ? `${text(kind, now)} now` : spread(kind, summaryOf(found.columns)))
    : gap?.why ?? spread(kind, pointAt(found.columns, pointed < 0 ? null : pointed));
  return (
    <figure className="small" aria-label={`GPU ${label}: ${spread(kind, summaryOf(found.columns))}`}>
      <figcaption>
        <a href={`${deviceLink(uuid)}?${queryOf(room.view)}`}><Lamp colour={lamp} /> <b>{label}</b> <span className="dim">{shortName(device.name)}</span></a>
        <span className="value" title={gap?.why}>{value}{then && <span className="dim"> · {before?.name} {text(kind, then.mean)}</span>}</span>
      </figcaption>
      <div className="drawn">
        <span className="scale" aria-hidden="true"><i>{text(kind, top)}</i><i>0</i></span>
        <div className="canvas">
          <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          <path className="grid" d={`M0 ${height(top, top)}H${WIDTH}M0 ${height(top / 2, top)}H${WIDTH}M0 ${height(0, top)}H${WIDTH}`} />
          <path className="ghost" d={ghost} stroke={`var(${colour})`} />
          <path d={paths.band} fill={`var(${colour})`} opacity="0.17" />
          <path d={paths.line} className="line" stroke={`var(${colour})`} />
          {limit && limit.value < top && <path className="limit" d={`M0 ${height(limit.value, top)}H${WIDTH}`} />}
        </svg>
        {limit && limit.value < top && <span className="limit-name" aria-hidden="true" style={{ bottom: `${100 - (Number(height(limit.value, top)) / HEIGHT) * 100}%` }}>{limit.label} {text(kind, limit.value)}</span>}
        {gaps.map((one) => <span key={one.since} className="gap" title={one.why} style={{ left: `${shareOf(one.since) * 100}%`, width: `${(shareOf(one.until) - shareOf(one.since)) * 100}%` }} />)}
        <div className="over">
          <Surface name={`GPU ${label}`} room={room} at={found.at} told={(at) => `${spanText(at, found.width)}: ${spread(kind, pointAt(found.columns, place(at)))}`} />
          <Marks marks={marks} since={since} until={until} slots={30} stops={stops} />
        </div>
        </div>
      </div>
      {last && (
        <p className="times" aria-hidden="true">
          {timeTicks(since, until, 4).map((tick) => <span key={tick.at} style={{ left: `${shareOf(tick.at) * 100}%` }}>{tick.text}</span>)}
        </p>
      )}
    </figure>
  );
});

/** Whether any other device was read in a range. */
function readBeside(charts: NodeCharts | undefined, uuid: string, gap: { since: number; until: number }): boolean {
  return Object.entries(charts?.devices ?? {}).some(([other, band]) => other !== uuid
    && band.mean.some((value, place) => value !== null && (charts?.at[place] as number) > gap.since && (charts?.at[place] as number) < gap.until));
}

function height(value: number, top: number): string {
  const [low, high] = padded(top, SHOWN_PIXELS);
  return (HEIGHT * (1 - (Math.min(value, top) - low) / (high - low))).toFixed(1);
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
