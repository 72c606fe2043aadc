/** The charts of one run, or of several: what they logged and what their GPUs did, over time or steps. */
import { type ReactNode, useMemo } from "react";
import type { RunDetails, RunMark } from "../../api/types";
import { Chart, type Line } from "../../charts/Chart";
import { Cursor, placeAt } from "../../charts/cursor";
import { GIB, pointAt, swatchOf } from "../../charts/data";
import type { ChartMark } from "../../charts/marks";
import { type ChartKind, KINDS, type Limit, text } from "../../charts/metrics";
import { Frame, Readout, spanText, type Told } from "../../charts/Scope";
import { known } from "../../lib/format";
import { keep } from "../../lib/router";
import { useTheme } from "../../lib/theme";
import { type Axis, curveLines, curveText, kindOf, labelsOf, MOST_CURVES, namesOf, onOneAxis, onSteps, restartMarks, type Stretch, stepper } from "./curves";
import { chartMarks, linesOf, lookAt, meansOf, READINGS, type Reading, widthsOf, withGaps } from "./data";
import { useRunStage } from "./room";
import { MOST_OVERLAID, sinceStart } from "./words";

const SHOWN = KINDS.slice(0, READINGS.length);
const NEAR = 0.012; // of the range: a mark this close to the cursor is told

interface Drawn {
  kind: ChartKind;
  at: number[];
  lines: Line[];
  limit?: Limit | null;
  note?: string;
}

interface AxisProps {
  query: URLSearchParams;
}

/** What runs log and what their GPUs did, on one axis. Of one run: a line for each of its GPUs; everything on the page has the same axis. */
export function RunCharts({ run, marks, query }: AxisProps & { run: RunDetails; marks: RunMark[] }) {
  const axis = axisOf(query, [run]);
  const begin = axis === "clock" ? run.began : 0;
  const drawn = useMemo(() => {
    const series = withGaps(run.series);
    const at = series.at.map((moment) => begin + moment);
    const logged = Object.entries(run.curves).slice(0, MOST_CURVES).map(([name, curve]): Drawn => ({
      kind: kindOf(name), note: curveText(curve), ...onOneAxis(curveLines(run, name, axis, begin, { label: name, colour: "--chart-1" })),
    }));
    const steps = axis === "step" ? stepper(run) : null;
    const readings = READINGS.map((reading, place): Drawn => {
      const lines = linesOf({ ...run, series }, reading);
      const found = steps ? onOneAxis(lines.flatMap((line) => onSteps(line, series.at, steps))) : { at, lines };
      return { kind: SHOWN[place]!, limit: limitOf(run, reading), ...found };
    });
    return [...logged, ...readings];
  }, [run, begin, axis]);
  const found = useMemo(() => (axis === "step" ? [] : [...chartMarks(marks, begin), ...restartMarks(run, begin)]), [run, marks, begin, axis]);
  const last = Math.max(run.duration_seconds ?? 0, run.series.at.at(-1) ?? 0);
  return <Charts drawn={drawn} marks={found} query={query} axis={axis} begin={begin} last={last} choices={choicesOf([run])} more={Object.keys(run.curves).length - MOST_CURVES} />;
}

/** Times are those of the day or count from the start; over steps only where a run logged them. */
export const isClock = (query: URLSearchParams): boolean => query.get("time") === "clock";

function axisOf(query: URLSearchParams, runs: RunDetails[]): Axis {
  if (isClock(query)) return "clock";
  return query.get("time") === "step" && runs.some(stepper) ? "step" : "start";
}

const choicesOf = (runs: RunDetails[]): [Axis, string][] => [["start", "since start"], ...(runs.length > 1 ? [] : [["clock", "time of day"] as [Axis, string]]), ...(runs.some(stepper) ? [["step", "steps"] as [Axis, string]] : [])];

/** What a place on the axis is called. */
const placeText = (at: number, axis: Axis): string => (axis === "clock" ? spanText(at, 0) : axis === "step" ? `step ${Math.round(at)}` : `${sinceStart(at)} after the start`);

/** Of several: a line for each run, of its GPUs their mean. */
export function OverlaidCharts({ runs, query }: AxisProps & { runs: RunDetails[] }) {
  const axis = axisOf(query, runs) === "step" ? "step" : "start";
  const names = useMemo(() => namesOf(runs), [runs]);
  const drawn = useMemo(() => {
    const labels = labelsOf(runs);
    const label = (run: RunDetails) => labels.get(run.id) ?? run.id;
    const logged = names.slice(0, MOST_CURVES).map((name): Drawn => ({
      kind: kindOf(name),
      ...onOneAxis(runs.flatMap((run, place) => curveLines(run, name, axis, 0, lookAt(place, label(run))))),
    }));
    const cut = runs.map((run) => ({ ...run, series: withGaps(run.series) }));
    const readings = READINGS.map((reading, place): Drawn => {
      const lines = meansOf(cut, reading, label).filter((line) => line.columns.mean.some((value) => typeof value === "number"));
      const steps = new Map(runs.map((run) => [label(run), stepper(run)]));
      const onAxis = (line: Stretch) => {
        const own = steps.get(line.label);
        return axis === "start" ? [line] : own ? onSteps(line, line.at, own) : [];
      };
      return { kind: SHOWN[place]!, ...onOneAxis(lines.flatMap(onAxis)) };
    });
    return [...logged, ...readings];
  }, [runs, names, axis]);
  const last = Math.max(1, ...runs.map((run) => Math.max(run.duration_seconds ?? 0, run.series.at.at(-1) ?? 0)));
  return <Charts drawn={drawn} marks={[]} query={query} axis={axis} begin={0} last={last} choices={choicesOf(runs)} more={names.length - MOST_CURVES} named />;
}

interface Props extends AxisProps {
  drawn: Drawn[];
  marks: ChartMark[];
  axis: Axis;
  begin: number;
  last: number;
  choices: [Axis, string][];
  /** How many logged values are not drawn. */
  more: number;
  /** Whether one line alone also has its name. */
  named?: boolean;
}

function Charts({ drawn, marks, query, axis, begin: start, last: seconds, choices, more, named = false }: Props) {
  const theme = useTheme();
  const cursor = useMemo(() => new Cursor(), []);
  const steps = axis === "step" ? drawn.flatMap((one) => (one.at.length ? [one.at[0] as number, one.at.at(-1) as number] : [])) : [];
  const begin = steps.length ? Math.min(...steps) : start;
  const last = steps.length ? Math.max(...steps) - begin : seconds;
  const stage = useRunStage(query, begin, last, () => cursor.get()?.at ?? null);
  const all = drawn.filter((one) => !named || one.lines.length).flatMap((one) => (named || !one.kind.own ? one.lines : []));
  const legend = [...new Map(all.map((line) => [line.label, line])).values()];
  const told = (at: number, chart: string) => toldAt(drawn.find((one) => one.kind.title === chart) ?? drawn[0]!, at, marks, stage.until - stage.since);
  const choose = (time: Axis) => {
    const next = new URLSearchParams(query);
    ["from", "to", "time"].forEach((name) => next.delete(name));
    if (time !== "start") next.set("time", time);
    keep(next);
  };
  return (
    <Frame room={stage} cursor={cursor} className="run-charts">
      <div className="ranges">
        <span role="group" aria-label="range" className="buttons">
          <button type="button" onClick={() => stage.move(-0.5)} disabled={!stage.zoomed} aria-label="earlier">◀</button>
          <button type="button" onClick={() => stage.move(0.5)} disabled={!stage.zoomed} aria-label="later">▶</button>
          <button type="button" onClick={() => stage.zoom(0.5)} aria-label="zoom in">+</button>
          <button type="button" onClick={() => stage.zoom(2)} disabled={!stage.zoomed} aria-label="zoom out">−</button>
          <button type="button" onClick={() => stage.reset()} disabled={!stage.zoomed}>all</button>
        </span>
        {choices.length > 1 && (
          <span role="group" aria-label="time" className="buttons">
            {choices.map(([name, words]) => <button key={name} type="button" aria-pressed={axis === name} onClick={() => choose(name)}>{words}</button>)}
          </span>
        )}
        <span className="dim">{axis === "start" ? `${sinceStart(stage.since)} to ${placeText(stage.until, axis)}` : `${placeText(stage.since, axis)} to ${placeText(stage.until, axis)}`}</span>
        {(legend.length > 1 || named) && <Legend lines={legend} />}
        {more > 0 && <span className="dim">and {more} more values: andon runs export --values</span>}
      </div>
      <div className="charts">
        {drawn.map(({ kind, at, lines, limit, note }) => (lines.length ? (
          <Chart
            key={kind.title} name={kind.title} kind={kind} at={at} widths={widthsOf(at)} readings={[]} lines={lines}
            limit={limit ?? null} room={stage} theme={theme} marks={marks} axis={axis} note={note} brief
          />
        ) : <Unread key={kind.title} title={kind.title} why={axis === "step" ? "it has no values with a step" : "its devices do not report it"} />))}
      </div>
      <Readout mine="" width={() => 0} when={(at) => placeText(at, axis)} told={told} />
    </Frame>
  );
}

function Legend({ lines }: { lines: Line[] }): ReactNode {
  return (
    <ul className="plain run-legend">
      {lines.slice(0, 2 * MOST_OVERLAID).map((line) => <li key={line.label}><i style={swatchOf(line)} />{line.label}</li>)}
    </ul>
  );
}

function Unread({ title, why }: { title: string; why: string }) {
  return <figure className="chart"><figcaption><b>{title}</b></figcaption><p className="dim">{why}</p></figure>;
}

/** What the chart under the cursor has at an instant, and what happened there. */
function toldAt(drawn: Drawn, at: number, marks: Props["marks"], range: number): { at: number; rows: Told[] } {
  const { kind } = drawn;
  const place = placeAt(drawn.at, at, Infinity);
  const rows: Told[] = drawn.lines.flatMap((line) => {
    const found = valueAt(line, place);
    return found === null ? [] : [{ label: line.label, colour: line.colour, value: text(kind, found) }];
  });
  const near = marks.filter((mark) => Math.abs(mark.at - at) <= range * NEAR).slice(0, 5);
  rows.push(...near.map((mark, index) => ({ label: index ? " ".repeat(index) : "event", colour: null, value: mark.title.slice(0, 60) })));
  return { at: place === null ? at : (drawn.at[place] as number), rows };
}

/** Of several runs, each has times of its own: the last that is not after the instant. */
function valueAt(line: Line, place: number | null): number | null {
  for (let index = place ?? -1; index >= 0; index -= 1) {
    if (line.columns.mean[index] === undefined) continue;
    return pointAt(line.columns, index)?.mean ?? null;
  }
  return null;
}

/** The limit that all devices share. */
function limitOf(run: RunDetails, reading: Reading): Limit | null {
  const values = run.devices.map((device) => (reading === "memory_used_bytes" ? device.memory_total_bytes : reading === "power_watts" ? device.power_limit_watts : null));
  const [first] = values;
  if (!known(first) || values.some((value) => value !== first)) return null;
  return reading === "power_watts" ? { label: "power limit", value: first } : { label: "total", value: first / GIB };
}
