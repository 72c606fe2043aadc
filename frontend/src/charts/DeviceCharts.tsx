/** All charts of a device over one time range, which can be selected, moved and zoomed. */
import { useCallback, useEffect, useMemo, useState } from "react";
import { useCharts, useUsage } from "../api/queries";
import type { Device, Usage } from "../api/types";
import { dateOf, duration, gib, isIdle, throttleName, throttleTone } from "../lib/format";
import { keep } from "../lib/router";
import { useTheme } from "../lib/theme";
import { live, useLive } from "../live/store";
import { Command } from "../parts/Command";
import { Trouble } from "../parts/Notice";
import { Chart, type Line } from "./Chart";
import { bands, drawnFrom } from "./data";
import { fetchSpan, moved, pointsOf, queryOf, RANGES, type View, viewOf, zoomed } from "./span";
import { type Strip, Strips } from "./Strips";

const MOST_USES = 12;
const GIB = 1024 ** 3;

export function DeviceCharts({ device, query }: { device: Device; query: URLSearchParams }) {
  const theme = useTheme();
  const now = useLive((n) => n.snapshot?.at ?? 0);
  const view = viewOf(query);
  const [cursor, setCursor] = useState<number | null>(null);
  const asked = fetchSpan(view, now);
  const charts = useCharts(device.uuid, asked, pointsOf(view.seconds));
  const uses = useUsage(device.uuid, asked);
  const until = view.until ?? now;
  const since = until - view.seconds;
  const ring = live.rings.of(device.uuid);
  const drawn = useMemo(
    () => drawnFrom(charts.data, ring, since, until, 1),
    [charts.data, ring, since, until],
  );
  const show = useCallback((next: View) => keep(queryOf(next)), []);
  const zoom = useCallback((from: number, to: number) => show({ seconds: Math.max(60, to - from), until: to }), [show]);
  useChartKeys(view, now, show);
  const common = { at: drawn.at, since, until, theme, onZoom: zoom, onCursor: setCursor };
  const line = (label: string, metric: keyof typeof drawn.series, colour: string): Line => ({
    label, columns: drawn.series[metric], colour,
  });
  const total = device.memory_total_bytes;
  const limit = device.sample?.power_limit_watts ?? device.limits.power_default_watts;
  return (
    <section className="charts" aria-label="over time">
      <Ranges view={view} now={now} show={show} uuid={device.uuid} />
      {charts.error && <Trouble problem={charts.error} what="History cannot be read; showing only what this page has received" />}
      <Chart {...common} title="Utilisation" lines={[line("utilisation", "utilization_percent", "--chart-1")]} top={100} unit={(v) => `${v.toFixed(0)} %`} axis={(v) => `${v} %`} />
      <Chart {...common} title="Memory" lines={[line("memory", "memory_used_bytes", "--chart-2")]} top={total === null ? null : total / GIB} unit={(v) => `${v.toFixed(1)} GiB`} axis={(v) => `${v} GiB`} />
      <Chart {...common} title="Temperature" lines={[line("temperature", "temperature_celsius", "--chart-3")]} top={Math.max(100, device.limits.slowdown_celsius ?? 0)} unit={(v) => `${v.toFixed(0)} °C`} axis={(v) => `${v} °`} />
      <Chart {...common} title="Power" lines={[line("power", "power_watts", "--chart-4")]} top={limit ?? null} unit={(v) => `${v.toFixed(0)} W`} axis={(v) => `${v} W`} />
      <Chart {...common} title="Clocks" lines={[line("SM", "sm_clock_mhz", "--chart-1"), line("memory", "memory_clock_mhz", "--chart-2")]} top={device.limits.sm_clock_mhz ?? null} unit={(v) => `${v.toFixed(0)} MHz`} axis={(v) => String(v)} />
      <div className="pair">
        <Strips title="Throttling" rows={throttleRows(drawn)} since={since} until={until} cursor={cursor} empty="none in this range" />
        <Strips title="Processes" rows={useRows(uses.data, now)} since={since} until={until} cursor={cursor} empty={uses.error ? uses.error.reason : "none in this range"} />
      </div>
    </section>
  );
}

function Ranges({ view, now, show, uuid }: { view: View; now: number; show: (view: View) => void; uuid: string }) {
  const until = view.until;
  const label = live.label(uuid);
  const asked = RANGES.find(([, seconds]) => seconds === view.seconds)?.[0].replace(" ", "").replace("1y", "365d").replace("min", "m") ?? `${Math.round(view.seconds / 60)}m`;
  return (
    <div className="ranges">
      <span role="group" aria-label="range" className="buttons">
        {RANGES.map(([name, seconds]) => (
          <button key={seconds} type="button" aria-pressed={view.seconds === seconds && until === null} onClick={() => show({ seconds, until: null })}>
            {name}
          </button>
        ))}
      </span>
      <span role="group" aria-label="move" className="buttons">
        <button type="button" onClick={() => show(moved(view, now, -0.5))} aria-label="earlier">◀</button>
        <button type="button" onClick={() => show(moved(view, now, 0.5))} aria-label="later" disabled={until === null}>▶</button>
        <button type="button" onClick={() => show(zoomed(view, now, 0.5))} aria-label="zoom in">+</button>
        <button type="button" onClick={() => show(zoomed(view, now, 2))} aria-label="zoom out">−</button>
        <button type="button" onClick={() => show({ ...view, until: null })} disabled={until === null}>now</button>
      </span>
      <span className="dim">{until === null ? `last ${duration(view.seconds)}` : `${dateOf(until - view.seconds)} to ${dateOf(until)}`}</span>
      <Command text={`andon history ${label} --since ${asked}`} />
    </div>
  );
}

function throttleRows(drawn: Parameters<typeof bands>[0]): Strip[] {
  return [...bands(drawn, isIdle)].map(([reason, segments]) => ({
    key: reason,
    label: throttleName(reason),
    detail: duration(segments.reduce((sum, one) => sum + one.until - one.since, 0)),
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
    segments: [{ since: use.first, until: use.last }],
  })), [uses, now]);
}

/** Keys: [ and ] move, + and - zoom. */
function useChartKeys(view: View, now: number, show: (view: View) => void): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if ((event.target as HTMLElement).closest?.("input, textarea, select, dialog") || event.ctrlKey || event.metaKey) return;
      if (event.key === "[") show(moved(view, now, -0.5));
      else if (event.key === "]") show(moved(view, now, 0.5));
      else if (event.key === "+") show(zoomed(view, now, 0.5));
      else if (event.key === "-") show(zoomed(view, now, 2));
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, [view, now, show]);
}
