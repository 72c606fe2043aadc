/** One uPlot chart: a line for the mean, a band from minimum to maximum, and a shared cursor. */
import { useEffect, useLayoutEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Theme } from "../lib/theme";
import type { Columns } from "./data";

export interface Line {
  label: string;
  columns: Columns;
  colour: string; // the name of a custom property
}

interface Props {
  title: string;
  unit: (value: number) => string;
  axis: (value: number) => string;
  at: number[];
  lines: Line[];
  since: number;
  until: number;
  /** The top of the scale if known; else from the data. */
  top: number | null;
  theme: Theme;
  onZoom: (since: number, until: number) => void;
  onCursor: (at: number | null) => void;
}

export const LEFT = 52;
export const RIGHT = 18; // room for half of the last tick label
const HEIGHT = 150;

export function Chart(props: Props) {
  const place = useRef<HTMLDivElement>(null);
  const readout = useRef<HTMLSpanElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;

  useLayoutEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    const made = new uPlot(options(element, () => latest.current, readout), data(latest.current), element);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [props.theme, props.lines.length]);

  useEffect(() => {
    const drawn = plot.current;
    if (!drawn) return;
    drawn.batch(() => {
      drawn.setData(data(props), false);
      drawn.setScale("x", { min: props.since, max: props.until });
    });
    showValues(drawn, props, readout.current);
  });

  return (
    <figure className="chart" aria-label={`${props.title}: ${summary(props)}`}>
      <figcaption>
        <b>{props.title}</b>
        <span ref={readout} className="readout" aria-hidden="true" />
      </figcaption>
      <div ref={place} className="plot" />
    </figure>
  );
}

function data(props: Props): uPlot.AlignedData {
  const columns = props.lines.flatMap((one) => [one.columns.max, one.columns.min, one.columns.mean]);
  return [props.at, ...columns] as uPlot.AlignedData;
}

function options(element: HTMLElement, now: () => Props, readout: React.RefObject<HTMLElement | null>): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const { lines } = now();
  const axis: uPlot.Axis = {
    stroke: colour("--dim"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    font: `11px ${style.getPropertyValue("--font")}`,
  };
  const bare: uPlot.Series = { points: { show: false }, width: 0 };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    padding: [8, RIGHT, 0, 0],
    legend: { show: false },
    cursor: {
      sync: { key: "device" },
      drag: { x: true, y: false, setScale: false },
      points: { size: 5 },
    },
    scales: {
      x: { time: true, auto: false, range: (_, low, high) => [low, high] },
      y: { range: (_, low, high) => range(now().top, low, high) },
    },
    axes: [
      { ...axis, size: 24, space: 80, values: (_, splits, __, ___, step) => splits.map((at) => stamp(at, step)) },
      { ...axis, size: LEFT, space: 32, values: (_, splits) => splits.map((value) => now().axis(value)) },
    ],
    series: [
      {},
      ...lines.flatMap((one) => [
        bare,
        bare,
        { stroke: colour(one.colour), width: 1.5, points: { show: false } } as uPlot.Series,
      ]),
    ],
    bands: lines.map((one, place) => ({
      series: [3 * place + 1, 3 * place + 2] as [number, number],
      fill: `${colour(one.colour)}33`,
    })),
    hooks: {
      setSelect: [(u) => {
        if (u.select.width < 6) return;
        now().onZoom(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"));
        u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      }],
      setCursor: [(u) => {
        showValues(u, now(), readout.current);
        const left = u.cursor.left ?? -1;
        now().onCursor(left < 0 ? null : u.posToVal(left, "x"));
      }],
    },
  };
}

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const MONTH = new Intl.DateTimeFormat(undefined, { month: "short", year: "numeric" });

/** A tick label as precise as the step requires; midnight shows the date. */
function stamp(at: number, step: number): string {
  const moment = new Date(at * 1000);
  if (step >= 28 * 86_400) return MONTH.format(moment);
  const midnight = moment.getHours() === 0 && moment.getMinutes() === 0;
  if (step >= 86_400 || (midnight && step >= 3_600)) return DAY.format(moment);
  return step < 60 ? `${CLOCK.format(moment)}:${String(moment.getSeconds()).padStart(2, "0")}` : CLOCK.format(moment);
}

/** A scale starts at zero, so that small changes look small. */
function range(top: number | null, low: number | null, high: number | null): [number, number] {
  if (top !== null) return [0, Math.max(top, high ?? 0)];
  if (high === null || low === null) return [0, 1];
  return [0, high <= 0 ? 1 : high * 1.08];
}

/** Shows the value under the cursor, else the last one; bypasses React: it changes with every move. */
function showValues(u: uPlot, props: Props, element: HTMLElement | null): void {
  if (!element) return;
  const place = (u.cursor.left ?? -1) >= 0 ? u.cursor.idx : null;
  const texts = props.lines.map((one) => {
    const value = place === null || place === undefined ? lastOf(one.columns.mean) : one.columns.mean[place];
    const text = value === null || value === undefined ? "–" : props.unit(value);
    return props.lines.length > 1 ? `${one.label} ${text}` : text;
  });
  element.textContent = texts.join("   ");
}

function lastOf(values: Columns["mean"]): number | null {
  for (let place = values.length - 1; place >= 0; place -= 1) {
    const value = values[place];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}

function summary(props: Props): string {
  return props.lines.map((one) => {
    const read = one.columns.mean.filter((value): value is number => typeof value === "number");
    if (!read.length) return `${one.label}: no data`;
    const mean = read.reduce((a, b) => a + b, 0) / read.length;
    const [low, high] = [Math.min(...read), Math.max(...read)];
    return `${one.label}: mean ${props.unit(mean)}, from ${props.unit(low)} to ${props.unit(high)}`;
  }).join("; ");
}
