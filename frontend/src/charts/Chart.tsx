/** One chart: a line for the mean, a band from least to most, the limit, and what they are called. */
import { useEffect, useLayoutEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { duration } from "../lib/format";
import type { Theme } from "../lib/theme";
import { padded, stamp, STEPS } from "./axis";
import { placeAt } from "./cursor";
import { type Columns, type Point, pointAt, summaryOf, swatchOf } from "./data";
import type { Gap } from "./gaps";
import type { ChartMark } from "./marks";
import { Marks } from "./MarkList";
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
  dash?: number[];
  /** The mean of an earlier time, at the times of now. */
  before?: { at: number[]; mean: Point[] };
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
  /** What happened, on the axis; and whether the tab key stops at those that lead somewhere. */
  marks?: ChartMark[];
  stops?: boolean;
  /** Where nothing was read. */
  gaps?: Gap[];
  /** The axis is the time of day, or counts seconds from the start of what is shown, or steps. */
  axis?: "clock" | "start" | "step";
  /** What stands beside the title. */
  note?: string | undefined;
  /** The numbers stand elsewhere: the legend has names alone. */
  brief?: boolean;
}

const LEFT = 64; // room for "100 GB/s"
const RIGHT = 26; // room for half of the last tick label, which may have seconds
const HEIGHT = 150;
const TOP = 8;
const AXIS = 24;
const NO_MARKS: ChartMark[] = [];

/** What stands at a place of an axis that is not the time of day. */
const COUNTED: Partial<Record<string, (at: number) => string>> = { start: duration, step: (at) => NUMBER.format(at) };
const NUMBER = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });

/** How many times as large as usual the type is: a chart grows with it. */
const unit = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
const rem = (pixels: number) => `${pixels / 16}rem`;

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
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT * unit() }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [props.theme, props.lines.length, props.axis]);

  useEffect(() => {
    plot.current?.batch(() => {
      plot.current?.setData(data(props), false);
      plot.current?.setScale("x", { min: room.since, max: room.until });
    });
  });

  const told = (at: number) => {
    const found = placeAt(props.at, at, longest(props, at));
    const gap = props.gaps?.find((one) => at >= one.since && at < one.until);
    const parts = props.lines.map((one) => `${one.label} ${spread(kind, pointAt(one.columns, found))}${gap ? ` (${gap.why})` : ""}`);
    return `${COUNTED[props.axis ?? "clock"]?.(at) ?? spanText(at, 0)}: ${parts.join(", ")}`;
  };
  return (
    <figure className="chart" aria-label={`${kind.title}: ${summary(props)}`}>
      <figcaption>
        <b>{kind.title}</b>
        {props.note && <span className="dim">{props.note}</span>}
        <span className="legend">
          {(!props.brief || props.lines.length > 1) && props.lines.map((one) => (
            <span key={one.label}>
              <i style={swatchOf(one)} />
              {props.lines.length > 1 && `${one.label} `}
              {room.view?.until === null && one.now !== null && <><b>{text(kind, one.now)}</b> now · </>}
              {!props.brief && <span className="dim">{props.lines.length > 1 ? rangeText(kind, one, props.readings).replace(/ \(.*/, "") : rangeText(kind, one, props.readings)}</span>}
            </span>
          ))}
        </span>
      </figcaption>
      <div className="drawn">
        <div ref={place} className="plot" aria-hidden="true" />
        <div className="over" style={{ left: rem(LEFT), right: rem(RIGHT), top: rem(TOP), bottom: rem(AXIS) }}>
          <Surface name={props.name} room={room} at={props.at} told={told} />
          <Marks marks={props.marks ?? NO_MARKS} since={room.since} until={room.until} stops={props.stops ?? false} />
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
  const { lines, axis: counts = "clock" } = now();
  const counted = COUNTED[counts];
  const large = unit();
  const font = `${13 * large}px ${style.getPropertyValue("--font")}`;
  const axis: uPlot.Axis = {
    stroke: colour("--dim"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    font,
  };
  const bare: uPlot.Series = { points: { show: false }, width: 0 };
  return {
    width: element.clientWidth,
    height: HEIGHT * large,
    padding: [TOP * large, RIGHT * large, 0, 0],
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { time: !counted, auto: false, range: (_, low, high) => [low, high] },
      y: { range: (u, low, high) => range(now(), low, high, u.height - (TOP + AXIS) * large) },
    },
    axes: [
      counted
        ? { ...axis, size: AXIS * large, space, ...(counts === "start" && { incrs: STEPS }), values: (_, splits) => splits.map(counted) }
        : { ...axis, size: AXIS * large, space, values: (_, splits, __, ___, step) => splits.map((at) => stamp(at, step)) },
      { ...axis, size: LEFT * large, space: 32 * large, values: (_, splits) => splits.map((value) => tick(now().kind, value)) },
    ],
    series: [
      {},
      ...lines.flatMap((one) => [
        bare,
        bare,
        { stroke: colour(one.colour), width: 1.5 * large, dash: one.dash, points: { show: (_, __, first, last) => last - first < 2, size: 4 * large } } as uPlot.Series,
      ]),
    ],
    bands: lines.map((one, place) => ({
      series: [3 * place + 1, 3 * place + 2] as [number, number],
      fill: `color-mix(in srgb, ${colour(one.colour)} 20%, transparent)`,
    })),
    hooks: {
      // Before the lines: neither the name of a limit nor an earlier time must hide a reading.
      drawAxes: [
        (u) => drawGaps(u, now().gaps ?? [], colour("--dim"), font),
        (u) => now().lines.forEach((one) => drawBefore(u, one, colour(one.colour))),
        (u) => drawLimit(u, now(), colour("--limit"), font),
      ],
      draw: [(u) => drawMarks(u, now().marks ?? [], colour("--ink"), colour("--limit"))],
    },
  };
}

/** Between two tick labels; a narrow chart has them closer together. */
const space = (_: uPlot, __: number, ___: number, ____: number, wide: number) => (wide < 420 ? 52 : 80);

const MANY_MARKS = 40;
const HATCH = 8; // pixels between two lines

/** What happened: a triangle on the axis, with a faint line while there are few. */
function drawMarks(u: uPlot, marks: ChartMark[], colour: string, bad: string): void {
  const { ctx } = u;
  const { left, width, top, height } = u.bbox;
  const size = 4 * devicePixelRatio;
  const shown = marks.flatMap((mark) => {
    const x = u.valToPos(mark.at, "x", true);
    return !mark.href && x >= left && x <= left + width ? [{ x, bad: mark.bad }] : [];
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

/** Hatched where nothing was read, with the reason where it has room. */
function drawGaps(u: uPlot, gaps: Gap[], colour: string, font: string): void {
  const { ctx } = u;
  const { left, width, top, height } = u.bbox;
  const ratio = devicePixelRatio;
  for (const gap of gaps) {
    const from = Math.max(left, u.valToPos(gap.since, "x", true));
    const wide = Math.min(left + width, u.valToPos(gap.until, "x", true)) - from;
    if (wide < 1) continue;
    ctx.save();
    ctx.beginPath();
    ctx.rect(from, top, wide, height);
    ctx.clip();
    ctx.strokeStyle = ctx.fillStyle = colour;
    ctx.lineWidth = ratio;
    ctx.globalAlpha = 0.14;
    ctx.beginPath();
    for (let x = from - height; x < from + wide; x += HATCH * ratio) (ctx.moveTo(x, top + height), ctx.lineTo(x + height, top));
    ctx.stroke();
    ctx.globalAlpha = 1;
    ctx.font = font.replace(/^[\d.]+/, (size) => String(Number(size) * ratio));
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    const room = wide - 12 * ratio;
    const text = [gap.why, "no reading"].find((one) => ctx.measureText(one).width < room);
    if (text) {
      const half = ctx.measureText(text).width / 2 + 6 * ratio;
      ctx.clearRect(from + wide / 2 - half, top + height / 2 - 9 * ratio, 2 * half, 18 * ratio);
      ctx.fillText(text, from + wide / 2, top + height / 2);
    }
    ctx.restore();
  }
}

/** An earlier time as a faint dashed line. */
function drawBefore(u: uPlot, { before }: Line, colour: string): void {
  if (!before) return;
  const { ctx } = u;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
  ctx.clip();
  ctx.strokeStyle = colour;
  ctx.globalAlpha = 0.55;
  ctx.lineWidth = ratio;
  ctx.setLineDash([2 * ratio, 3 * ratio]);
  ctx.beginPath();
  let open = false;
  before.mean.forEach((value, place) => {
    if (typeof value !== "number") return void (open = open && value === undefined);
    const [x, y] = [u.valToPos(before.at[place] as number, "x", true), u.valToPos(value, "y", true)];
    if (open) ctx.lineTo(x, y);
    else ctx.moveTo(x, y);
    open = true;
  });
  ctx.stroke();
  ctx.restore();
}

/** A dashed line with its name above it: where the device slows down, or can have no more. */
function drawLimit(u: uPlot, { limit, kind }: Props, colour: string, font: string): void {
  if (!limit) return;
  const ratio = devicePixelRatio;
  const y = Math.round(u.valToPos(limit.value, "y", true)) + 0.5;
  const { left, width, top } = u.bbox;
  if (y < top) return;
  const { ctx } = u;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour;
  ctx.lineWidth = ratio;
  ctx.setLineDash([5 * ratio, 4 * ratio]);
  ctx.beginPath();
  ctx.moveTo(left, y);
  ctx.lineTo(left + width, y);
  ctx.stroke();
  ctx.font = font.replace(/^[\d.]+/, (size) => String(Number(size) * ratio));
  ctx.textAlign = "right";
  ctx.textBaseline = "bottom";
  ctx.fillText(`${limit.label} ${text(kind, limit.value)}`, left + width - 2 * ratio, y - ratio);
  ctx.restore();
}

/** In the largest unit that keeps it short: a long label would be cut. */
function tick(kind: ChartKind, value: number): string {
  if (kind.own) return kind.own(value);
  if (kind.unit === "MHz") return `${value / 1000}\u00a0GHz`;
  return kind.unit.endsWith("/s") ? text(kind, value).replace(".0", "") : `${value}\u00a0${kind.unit}`;
}

/** A scale starts at zero, so that small changes look small. */
function range({ kind, limit, lines }: Props, low: number | null, high: number | null, pixels: number): [number, number] {
  const before = Math.max(0, ...lines.flatMap((one) => (one.before?.mean ?? []).map((value) => value ?? 0)));
  const most = Math.max(high ?? 0, before);
  const top = topOf(kind, limit);
  if (kind.own && low !== null && high !== null && (low < 0 || low > high / 2) && low < high) return [low - (high - low) * 0.05, high + (high - low) * 0.08];
  if (top !== null) return padded(Math.max(top, most), pixels);
  return padded(low === null && !before ? 1 : most <= 0 ? 1 : most * 1.08, pixels);
}

function summary(props: Props): string {
  return props.lines.map((one) => {
    const found = summaryOf(one.columns, props.readings);
    if (!found) return `${one.label}: no data`;
    const { kind } = props;
    return `${one.label}: mean ${text(kind, found.mean)}, from ${text(kind, found.min)} to ${text(kind, found.max)}`;
  }).join("; ");
}
