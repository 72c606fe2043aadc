/** All charts of one device over the range of the page. */
import { useMemo } from "react";
import { useCharts, useUsage } from "../api/queries";
import type { Device, Usage } from "../api/types";
import { duration, gib, isIdle, throttleName, throttleTone } from "../lib/format";
import { useTheme } from "../lib/theme";
import { live } from "../live/store";
import { Trouble } from "../parts/Notice";
import { Chart, type Line } from "./Chart";
import { placeAt } from "./cursor";
import { bands, type Drawn, drawnFrom, pointAt, shareOf } from "./data";
import { type ChartKind, kindsOf, nowOf, spread } from "./metrics";
import type { Room } from "./room";
import { Readout, spanText, type Told } from "./Scope";
import { type Strip, Strips } from "./Strips";

const MOST_USES = 12;

interface Props {
  device: Device;
  room: Room;
  /** How many of the charts; all unless there is little room. */
  kinds?: number;
}

export function DeviceCharts({ device, room, kinds }: Props) {
  const theme = useTheme();
  const shown = kindsOf(device, kinds);
  const charts = useCharts(device.uuid, room.asked, room.points, shown.flatMap((kind) => kind.lines.map((line) => line.metric)));
  const uses = useUsage(device.uuid, room.asked);
  const { since, until } = room;
  const ring = live.rings.of(device.uuid);
  const drawn = useMemo(() => drawnFrom(charts.data, ring, since, until, 1), [charts.data, ring, since, until]);
  const label = live.label(device.uuid);
  const read = drawn.readings.some((count) => count > 0) || drawn.at.length > 0;
  const told = (at: number) => `${spanText(at, 0)}: ${throttledAt(drawn, at).join(", ") || "not throttled"}`;
  const nothing = read ? "none in this range" : "nothing was read in this range";
  const untold = device.missing["throttle"];
  return (
    <div className="charts">
      {charts.error && <Trouble problem={charts.error} what="History cannot be read; showing only what this page has received" />}
      {shown.map((kind) => {
        const lines: Line[] = kind.lines.map((one) => ({
          label: one.label, colour: one.colour, columns: drawn.series[one.metric], now: nowOf(device, one.metric),
        }));
        return (
          <Chart
            key={kind.title} name={`${kind.title} of GPU ${label}`} kind={kind} lines={lines} limit={kind.limit(device)}
            at={drawn.at} widths={drawn.widths} readings={drawn.readings} room={room} theme={theme}
          />
        );
      })}
      <div className="pair">
        <Strips title="Throttling" name={`Throttling of GPU ${label}`} rows={throttleRows(drawn)} room={room} at={drawn.at} told={told} empty={untold ? `not known: ${untold}` : nothing} />
        <Strips title="Processes" name={`Processes of GPU ${label}`} rows={useRows(uses.data, room.now)} room={room} at={drawn.at} told={(at) => spanText(at, 0)} empty={uses.error ? uses.error.reason : nothing} />
      </div>
      <Readout width={(at) => widthAt(drawn, at)} told={(at) => toldAt(drawn, at, shown)} mine={` GPU ${label}`} />
    </div>
  );
}

function widthAt(drawn: Drawn, at: number): number {
  const place = placeAt(drawn.at, at, Infinity);
  return place === null ? 0 : (drawn.widths[place] as number);
}

/** What every chart has at an instant. */
function toldAt(drawn: Drawn, at: number, kinds: ChartKind[]): { at: number; rows: Told[] } | null {
  const place = placeAt(drawn.at, at, Math.max(3.5, widthAt(drawn, at) * 1.5));
  if (place === null) return null;
  const rows: Told[] = kinds.flatMap((kind) => kind.lines.map((line) => ({
    label: line.name ?? line.label,
    colour: line.colour,
    value: spread(kind, pointAt(drawn.series[line.metric], place)),
  })));
  const slowed = throttledAt(drawn, at);
  if (slowed.length) rows.push({ label: "throttled", colour: null, value: slowed.join(", ") });
  return { at: drawn.at[place] as number, rows };
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

export function percentText(share: number): string {
  if (share > 0 && share < 0.01) return "less than 1 %";
  return `${Math.round(share * 100)} %`;
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
    detail: `${duration(Math.min(now, use.last) - use.first)}, up to ${gib(use.peak_memory_bytes)} GiB`,
    tone: "blue",
    segments: [{ since: use.first, until: use.last, share: 1 }],
  })), [uses, now]);
}
