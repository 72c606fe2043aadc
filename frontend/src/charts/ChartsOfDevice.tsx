/** All charts of one device over the range of the page. */
import { useEffect, useMemo } from "react";
import { usePast } from "../api/ports";
import type { Charts, Device, Usage } from "../api/types";
import { duration, inGib, isIdle, throttleName, throttleTone } from "../lib/format";
import { useTheme } from "../lib/theme";
import type { Metric } from "../live/rings";
import { live } from "../live/store";
import { Trouble } from "../parts/Notice";
import { Chart, type Line } from "./Chart";
import { placeAt } from "./cursor";
import { bands, type Drawn, drawnFrom, firstRead, pointAt, scaleOf, shareOf } from "./data";
import { type Gap, gapsOf, whyGap } from "./gaps";
import { type Happened, useHappened } from "./happened";
import { marksOn } from "./marks";
import { PastOf } from "./Past";
import { type ChartKind, kindsOf, nowOf, spread, text } from "./metrics";
import type { Room } from "./room";
import type { Sheet } from "./saving";
import { Readout, spanText, type Told } from "./Scope";
import { type Strip, Strips } from "./Strips";

const MOST_USES = 12;

export interface Props {
  device: Device;
  room: Room;
  /** How many of the charts; all unless there is little room. */
  kinds?: number;
}

export function ChartsOfDevice({ device, room, kinds }: Props) {
  const theme = useTheme();
  const shown = kindsOf(device, kinds);
  const metrics = shown.flatMap((kind) => kind.lines.map((line) => line.metric));
  const charts = usePast((past) => past.charts(device.uuid, room.asked, room.points, metrics));
  const uses = usePast((past) => past.usage(device.uuid, room.asked));
  const { since, until, before } = room;
  const happened = useHappened(since, room.view.seconds);
  const marks = useMemo(() => marksOn(happened.marks, device.uuid), [happened, device.uuid]);
  const ago = before?.seconds ?? 0;
  const earlier = usePast((past) => past.charts(device.uuid, { since: room.asked.since - ago, until: room.asked.until - ago }, room.points, metrics, before !== null)).data;
  const ring = live.rings.of(device.uuid);
  const drawn = useMemo(() => drawnFrom(charts.data, ring, since, until, 1), [charts.data, ring, since, until]);
  const label = live.label(device.uuid);
  const then = useMemo(() => (before && earlier ? { ...earlier, at: earlier.at.map((at) => at + ago), name: before.name } : null), [before, earlier, ago]);
  const fetched = charts.data !== undefined && !charts.isPlaceholderData;
  const gaps = fetched ? gapsBy(drawn, metrics, device, happened, room) : NO_GAPS;
  const { sheets, begins } = room;
  const first = firstRead(charts.data?.at ?? [], Object.values(charts.data?.series ?? {}), ring, room.asked.since);
  useEffect(() => {
    if (fetched) begins(device.uuid, first);
  }, [fetched, begins, device.uuid, first]);
  useEffect(() => {
    sheets.set(device.uuid, () => sheetOf(`GPU ${label}`, drawn, shown));
    return () => void sheets.delete(device.uuid);
  });
  const read = drawn.readings.some((count) => count > 0) || drawn.at.length > 0;
  const told = (at: number) => `${spanText(at, 0)}: ${throttledAt(drawn, at).join(", ") || "not throttled"}`;
  const nothing = read ? "none in this range" : "nothing was read in this range";
  const untold = device.missing["throttle"];
  return (
    <div className="charts">
      {charts.error && <Trouble problem={charts.error} what="History cannot be read; showing only what this page has received" />}
      {shown.map((kind, place) => {
        const lines: Line[] = kind.lines.map((one) => {
          const past = then?.series[one.metric];
          const scale = scaleOf(one.metric);
          return {
            label: one.label, colour: one.colour, columns: drawn.series[one.metric], now: nowOf(device, one.metric),
            ...(then && past ? { before: { at: then.at, mean: past.mean.map((value) => (value === null ? null : value / scale)) } } : {}),
          };
        });
        return (
          <Chart
            key={kind.title} name={`${kind.title} of GPU ${label}`} kind={kind} lines={lines} limit={kind.limit(device)}
            at={drawn.at} widths={drawn.widths} readings={drawn.readings} room={room} theme={theme}
            marks={marks} stops={place === 0} gaps={gaps[(kind.lines[0] as { metric: string }).metric] ?? []}
          />
        );
      })}
      <div className="pair">
        <Strips title="Throttling" name={`Throttling of GPU ${label}`} rows={throttleRows(drawn)} room={room} at={drawn.at} told={told} empty={untold ? `not known: ${untold}` : nothing} />
        <Strips title="Processes" name={`Processes of GPU ${label}`} rows={useRows(uses.data, room.now)} room={room} at={drawn.at} told={(at) => spanText(at, 0)} empty={uses.error ? uses.error.reason : nothing} />
      </div>
      <PastOf uuid={device.uuid} room={room} />
      <Readout width={(at) => widthAt(drawn, at)} told={(at) => toldAt(drawn, at, shown, then, gaps)} mine={` GPU ${label}`} />
    </div>
  );
}

const NO_GAPS: Record<string, Gap[]> = {};

type Then = { at: number[]; series: Charts["series"]; name: string } | null;

/** Where each reading has none, and why. */
function gapsBy(drawn: Drawn, metrics: Metric[], device: Device, { alerts }: Happened, { since, until, now }: Room): Record<string, Gap[]> {
  const read = (gap: { since: number; until: number }) => drawn.at.some((at, place) => at >= gap.since && at + (drawn.widths[place] as number) <= gap.until && (drawn.readings[place] as number) > 0);
  const known = { device, alerts, since, now, others: (gap: { since: number; until: number }) => (read(gap) ? "device" as const : null) };
  return Object.fromEntries(metrics.map((metric) => [
    metric, gapsOf(drawn.at, drawn.series[metric].mean, drawn.widths, since, until).map((gap) => ({ ...gap, why: whyGap(gap, metric, known) })),
  ]));
}

function sheetOf(gpu: string, drawn: Drawn, kinds: ChartKind[]): Sheet {
  const columns = kinds.flatMap((kind) => kind.lines.flatMap((line) => (["mean", "min", "max"] as const).map((name) =>
    [`${line.name ?? line.label} ${kind.unit} ${name}`, drawn.series[line.metric][name]] as const)));
  return { gpu, at: drawn.at, columns: Object.fromEntries(columns) };
}

function widthAt(drawn: Drawn, at: number): number {
  const place = placeAt(drawn.at, at, Infinity);
  return place === null ? 0 : (drawn.widths[place] as number);
}

/** What every chart has at an instant, and had at the time it is compared with. */
function toldAt(drawn: Drawn, at: number, kinds: ChartKind[], then: Then, gaps: Record<string, Gap[]>): { at: number; rows: Told[] } | null {
  const place = placeAt(drawn.at, at, Math.max(3.5, widthAt(drawn, at) * 1.5));
  const lines = kinds.flatMap((kind) => kind.lines.map((line) => ({ kind, line })));
  const rows: Told[] = lines.map(({ kind, line }) => {
    const past = then?.series[line.metric]?.mean[placeAt(then.at, at, Infinity) ?? -1];
    const found = place === null ? null : pointAt(drawn.series[line.metric], place);
    return {
      label: line.name ?? line.label, colour: line.colour, value: spread(kind, found),
      ...(then && typeof past === "number" && { then: `${then.name} ${text(kind, past / scaleOf(line.metric))}` }),
    };
  });
  const gap = lines.flatMap(({ line }) => gaps[line.metric] ?? []).find((one) => at >= one.since && at < one.until);
  if (gap) rows.push({ label: "no reading", colour: null, value: gap.why });
  else if (place === null) return null;
  const slowed = throttledAt(drawn, at);
  if (slowed.length) rows.push({ label: "throttled", colour: null, value: slowed.join(", ") });
  return { at: place === null ? at : (drawn.at[place] as number), rows: rows.filter((row) => row.value !== "no reading" || row.then || !gap) };
}

/** "power cap 57 %": by what it was throttled at an instant, and how much of the time. */
function throttledAt(drawn: Drawn, at: number): string[] {
  const place = placeAt(drawn.at, at, Math.max(3.5, widthAt(drawn, at) * 1.5));
  if (place === null) return [];
  return Object.entries(drawn.throttle).flatMap(([reason, parts]) => {
    const share = parts[place];
    if (!share || isIdle(reason)) return [];
    return [share >= 0.995 ? throttleName(reason) : `${throttleName(reason)} ${percentText(share)}`];
  });
}

function percentText(share: number): string {
  if (share > 0 && share < 0.01) return "less than 1 %";
  return `${Math.round(share * 100)}\u00a0%`;
}

function throttleRows(drawn: Drawn): Strip[] {
  return [...bands(drawn, isIdle)].map(([reason, segments]) => ({
    key: reason,
    label: throttleName(reason),
    detail: `${percentText(shareOf(drawn, reason) ?? 0)} of the time`,
    tone: throttleTone(reason),
    segments,
  }));
}

function useRows(uses: Usage | undefined, now: number): Strip[] {
  return useMemo(() => (uses?.items ?? []).slice(0, MOST_USES).map((use) => ({
    key: `${use.pid}-${use.started}-${use.first}`,
    label: [use.user, use.name ?? `pid ${use.pid}`].filter(Boolean).join(" · "),
    detail: `${duration(Math.min(now, use.last) - use.first)}, up to ${inGib(use.peak_memory_bytes)}`,
    tone: "blue",
    segments: [{ since: use.first, until: use.last, share: 1 }],
  })), [uses, now]);
}
