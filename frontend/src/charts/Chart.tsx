/** One chart: a line for the mean, a band from least to most, the limit, and what they are called. */
import { useEffect, useLayoutEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { duration, momentOf } from "../lib/format";
import type { Theme } from "../lib/theme";
import { placeAt } from "./cursor";
import { type Columns, labelBelow, pointAt, summaryOf } from "./data";
import { type ChartKind, type Limit, spread, text, topOf } from "./metrics";
import type { Stage } from "./room";
import { spanText } from "./Scope";
import { Surface } from "./Surface";

export interface Line {
  label: string;
  columns: Columns;
  colour: string; // the name of a custom property
  /** The reading of this instant. */
  now: number | null;
}

interface Props {
  /** Tells it from the same chart of another device. */
  name: string;
  kind: ChartKind;
  at: number[];
  /** The seconds of each element of `at`, and how many readings it has. */
  widths: number[];
  readings: number[];
  lines: Line[];
  limit: Limit | null;
  room: Stage;
  theme: Theme;
  /** What happened, on the axis. */
  marks?: ChartMark[];
  /** The axis counts from the start of what is shown, in seconds. */
  sinceStart?: boolean;
  /** The numbers stand elsewhere: the legend has names alone. */
  brief?: boolean;
}

/** Something that happened at an instant. */
export interface ChartMark {
  at: number;
  title: string;
  bad: boolean;
}

export const LEFT = 52;
export const RIGHT = 18; // room for half of the last tick label
const HEIGHT = 150;
const TOP = 8;
const AXIS = 24;
const LABEL = 14; // the height of a limit's name

export function Chart(props: Props) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const { kind, room } = props;

  useLayoutEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    const made = new uPlot(options(element, () => latest.current), data(latest.current), element);
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
    plot.current?.batch(() => {
      plot.current?.setData(data(props), false);
      plot.current?.setScale("x", { min: room.since, max: room.until });
    });
  });

  const told = (at: number) => {
    const found = placeAt(props.at, at, longest(props, at));
    const parts = props.lines.map((one) => `${one.label} ${spread(kind, pointAt(one.columns, found))}`);
    return `${props.sinceStart ? duration(at) : spanText(at, 0)}: ${parts.join(", ")}`;
  };
  return (
    <figure className="chart" aria-label={`${kind.title}: ${summary(props)}`}>
      <figcaption>
        <b>{kind.title}</b>
        <span className="legend">
          {props.lines.map((one) => (
            <span key={one.label}>
              <i style={{ background: `var(${one.colour})` }} />
              {props.lines.length > 1 && `${one.label} `}
              {room.view?.until === null && one.now !== null && <><b>{text(kind, one.now)}</b> now · </>}
              {!props.brief && <span className="dim">{rangeText(kind, one, props.readings)}</span>}
            </span>
          ))}
        </span>
      </figcaption>
      <div className="drawn">
        <div ref={place} className="plot" aria-hidden="true" />
        <div className="over" style={{ left: LEFT, right: RIGHT, top: TOP, bottom: AXIS }}>
          <Surface name={props.name} room={room} at={props.at} told={told} />
        </div>
      </div>
    </figure>
  );
}

/** How far back an instant's reading may lie. */
function longest(props: Props, at: number): number {
  const place = placeAt(props.at, at, Infinity);
  return Math.max(3.5, (place === null ? 0 : (props.widths[place] as number)) * 1.5);
}

/** What the whole range has: always called a mean, and never mistaken for the reading of now. */
function rangeText(kind: ChartKind, line: Line, readings: number[]): string {
  const found = summaryOf(line.columns, readings);
  if (!found) return "nothing was read";
  const told = spread(kind, found);
  return told.startsWith("mean") ? told : `mean ${told}`;
}

function data(props: Props): uPlot.AlignedData {
  const columns = props.lines.flatMap((one) => [one.columns.max, one.columns.min, one.columns.mean]);
  return [props.at, ...columns] as uPlot.AlignedData;
}

function options(element: HTMLElement, now: () => Props): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const { lines, sinceStart } = now();
  const font = `11px ${style.getPropertyValue("--font")}`;
  const axis: uPlot.Axis = {
    stroke: colour("--dim"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    font,
  };
  const bare: uPlot.Series = { points: { show: false }, width: 0 };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    padding: [TOP, RIGHT, 0, 0],
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { time: !sinceStart, auto: false, range: (_, low, high) => [low, high] },
      y: { range: (_, low, high) => range(topOf(now().kind, now().limit), low, high) },
    },
    axes: [
      sinceStart
        ? { ...axis, size: AXIS, space, incrs: STEPS, values: (_, splits) => splits.map(duration) }
        : { ...axis, size: AXIS, space, values: (_, splits, __, ___, step) => splits.map((at) => stamp(at, step)) },
      { ...axis, size: LEFT, space: 32, values: (_, splits) => splits.map((value) => tick(now().kind, value)) },
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
      // Before the lines: the name of a limit must not hide a reading near it.
      drawAxes: [(u) => drawLimit(u, now(), colour("--limit"), font)],
      draw: [(u) => drawMarks(u, now().marks ?? [], colour("--ink"), colour("--limit"))],
    },
  };
}

/** Between two tick labels; a narrow chart has them closer together. */
const space = (_: uPlot, __: number, ___: number, ____: number, wide: number) => (wide < 420 ? 52 : 80);

/** Steps of an axis that counts from the start: round in seconds, minutes, hours and days. */
const STEPS = [0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800];
const MANY_MARKS = 40;

/** What happened: a triangle on the axis, with a faint line while there are few. */
function drawMarks(u: uPlot, marks: ChartMark[], colour: string, bad: string): void {
  const { ctx } = u;
  const { left, width, top, height } = u.bbox;
  const size = 4 * devicePixelRatio;
  const shown = marks.flatMap((mark) => {
    const x = u.valToPos(mark.at, "x", true);
    return x >= left && x <= left + width ? [{ x, bad: mark.bad }] : [];
  });
  ctx.save();
  for (const mark of shown) {
    ctx.fillStyle = ctx.strokeStyle = mark.bad ? bad : colour;
    ctx.globalAlpha = 0.25;
    if (shown.length <= MANY_MARKS) ctx.fillRect(Math.round(mark.x), top, 1, height);
    ctx.globalAlpha = 0.85;
    ctx.beginPath();
    ctx.moveTo(mark.x - size, top + height);
    ctx.lineTo(mark.x + size, top + height);
    ctx.lineTo(mark.x, top + height - 1.6 * size);
    ctx.fill();
  }
  ctx.restore();
}

/** A dashed line with its name: where the device slows down, or can have no more. */
function drawLimit(u: uPlot, { limit, kind, lines }: Props, colour: string, font: string): void {
  if (!limit) return;
  const ratio = devicePixelRatio;
  const y = Math.round(u.valToPos(limit.value, "y", true)) + 0.5;
  const { left, width, top } = u.bbox;
  if (y < top) return;
  const { ctx } = u;
  const label = `${limit.label} ${text(kind, limit.value)}`;
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.lineWidth = ratio;
  ctx.setLineDash([5 * ratio, 4 * ratio]);
  ctx.beginPath();
  ctx.moveTo(left, y);
  ctx.lineTo(left + width, y);
  ctx.stroke();
  ctx.font = font.replace("11px", `${11 * ratio}px`);
  ctx.textAlign = "right";
  const reach = Math.abs(u.posToVal(0, "y") - u.posToVal(LABEL, "y"));
  const below = labelBelow(lines.map((one) => one.columns), limit.value, reach);
  ctx.textBaseline = below ? "top" : "bottom";
  ctx.fillStyle = colour;
  ctx.fillText(label, left + width - 2 * ratio, below ? y + 2 * ratio : y - ratio);
  ctx.restore();
}

const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const MONTH = new Intl.DateTimeFormat(undefined, { month: "short", year: "numeric" });

function tick(kind: ChartKind, value: number): string {
  // The title has the unit; a long one would be cut off here.
  return kind.unit.length > 3 || kind.unit === "MHz" ? String(value) : `${value} ${kind.unit}`;
}

/** A tick label as precise as the step requires; midnight shows the date. */
function stamp(at: number, step: number): string {
  const moment = new Date(at * 1000);
  if (step >= 28 * 86_400) return MONTH.format(moment);
  const midnight = momentOf(at).includes(" 00:00");
  if (step >= 86_400 || (midnight && step >= 3_600)) return DAY.format(moment);
  return momentOf(at).slice(11, step < 60 ? 19 : 16);
}

/** A scale starts at zero, so that small changes look small. */
function range(top: number | null, low: number | null, high: number | null): [number, number] {
  if (top !== null) return [0, Math.max(top, high ?? 0)];
  if (high === null || low === null) return [0, 1];
  return [0, high <= 0 ? 1 : high * 1.08];
}

function summary(props: Props): string {
  return props.lines.map((one) => {
    const found = summaryOf(one.columns, props.readings);
    if (!found) return `${one.label}: no data`;
    const { kind } = props;
    return `${one.label}: mean ${text(kind, found.mean)}, from ${text(kind, found.min)} to ${text(kind, found.max)}`;
  }).join("; ");
}
