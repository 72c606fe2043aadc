/** The four charts of one run, or of several over the time since their start. */
import { type ReactNode, useMemo } from "react";
import type { RunDetails, RunMark } from "../../api/types";
import { Chart, type Line } from "../../charts/Chart";
import { Cursor, placeAt } from "../../charts/cursor";
import { GIB, pointAt } from "../../charts/data";
import { KINDS, type Limit, text } from "../../charts/metrics";
import { Frame, Readout, spanText, type Told } from "../../charts/Scope";
import { known } from "../../lib/format";
import { keep } from "../../lib/router";
import { useTheme } from "../../lib/theme";
import { chartMarks, linesOf, overlaid, READINGS, type Reading, widthsOf, withGaps } from "./data";
import { useRunStage } from "./room";
import { MOST_OVERLAID, sinceStart } from "./words";

const SHOWN = KINDS.slice(0, READINGS.length);
const NEAR = 0.012; // of the range: a mark this close to the cursor is told

interface Drawn {
  reading: Reading;
  at: number[];
  lines: Line[];
}

/** Of one run: a line for each of its GPUs, since its start or against the time of day; everything on the page has the same. */
export function RunCharts({ run, marks, query }: { run: RunDetails; marks: RunMark[]; query: URLSearchParams }) {
  const clock = isClock(query);
  const begin = clock ? run.began : 0;
  const drawn = useMemo(() => {
    const series = withGaps(run.series);
    const at = series.at.map((moment) => begin + moment);
    return READINGS.map((reading) => ({ reading, at, lines: linesOf({ ...run, series }, reading) }));
  }, [run, begin]);
  const found = useMemo(() => chartMarks(marks, begin), [marks, begin]);
  const choose = (time: string) => {
    const next = new URLSearchParams(query);
    if (time) next.set("time", time);
    else next.delete("time");
    keep(next);
  };
  const last = Math.max(run.duration_seconds ?? 0, run.series.at.at(-1) ?? 0);
  return (
    <Charts
      drawn={drawn} marks={found} query={query} begin={begin} last={last} limitOf={(reading) => limitOf(run, reading)}
      when={(moment) => timeText(moment, clock)} fromStart={!clock}
      times={(
        <span role="group" aria-label="time" className="buttons">
          <button type="button" aria-pressed={!clock} onClick={() => choose("")}>since start</button>
          <button type="button" aria-pressed={clock} onClick={() => choose("clock")}>time of day</button>
        </span>
      )}
    />
  );
}

/** Whether times are those of the day; else they count from the start. */
export const isClock = (query: URLSearchParams): boolean => query.get("time") === "clock";

const timeText = (moment: number, clock: boolean): string => (clock ? spanText(moment, 0) : `${sinceStart(moment)} after the start`);

/** Of several: a line for each, the mean of its GPUs. */
export function OverlaidCharts({ runs, query }: { runs: RunDetails[]; query: URLSearchParams }) {
  const drawn = useMemo(() => READINGS.map((reading) => ({ reading, ...overlaid(runs.map((run) => ({ ...run, series: withGaps(run.series) })), reading, (run) => `${run.name} ${run.id}`) })), [runs]);
  const last = Math.max(1, ...runs.map((run) => Math.max(run.duration_seconds ?? 0, run.series.at.at(-1) ?? 0)));
  return <Charts drawn={drawn} marks={[]} query={query} begin={0} last={last} limitOf={() => null} when={(moment) => timeText(moment, false)} fromStart named />;
}

interface Props {
  drawn: Drawn[];
  marks: ReturnType<typeof chartMarks>;
  query: URLSearchParams;
  begin: number;
  last: number;
  limitOf: (reading: Reading) => Limit | null;
  when: (at: number) => string;
  fromStart?: boolean;
  /** The choice of times. */
  times?: ReactNode;
  /** Whether one line alone also has its name. */
  named?: boolean;
}

function Charts({ drawn, marks, query, begin, last, limitOf: limit, when, fromStart = false, times, named = false }: Props) {
  const theme = useTheme();
  const cursor = useMemo(() => new Cursor(), []);
  const stage = useRunStage(query, begin, last, () => cursor.get()?.at ?? null);
  const all = drawn.find((one) => one.lines.length)?.lines ?? [];
  const told = (at: number, chart: string) => toldAt(drawn.find((one) => titleOf(one.reading) === chart) ?? drawn[0]!, at, marks, stage.until - stage.since);
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
        {times}
        <span className="dim">{fromStart ? `${sinceStart(stage.since)} to ${sinceStart(stage.until)} after the start` : `${spanText(stage.since, 0)} to ${spanText(stage.until, 0)}`}</span>
        {(all.length > 1 || named) && <Legend lines={all} />}
      </div>
      <div className="charts">
        {drawn.map((one, place) => {
          const kind = SHOWN[place]!;
          if (!one.lines.length) return <Unread key={one.reading} title={kind.title} />;
          return (
            <Chart
              key={one.reading} name={titleOf(one.reading)} kind={kind} at={one.at} widths={widthsOf(one.at)} readings={[]} lines={one.lines}
              limit={limit(one.reading)} room={stage} theme={theme} marks={marks} sinceStart={fromStart} brief
            />
          );
        })}
      </div>
      <Readout mine="" width={() => 0} when={when} told={told} />
    </Frame>
  );
}

const titleOf = (reading: Reading): string => SHOWN[READINGS.indexOf(reading)]!.title;

function Legend({ lines }: { lines: Line[] }): ReactNode {
  return (
    <ul className="plain run-legend">
      {lines.slice(0, 2 * MOST_OVERLAID).map((line) => <li key={line.label}><i style={{ background: `var(${line.colour})` }} />{line.label}</li>)}
    </ul>
  );
}

function Unread({ title }: { title: string }) {
  return <figure className="chart"><figcaption><b>{title}</b></figcaption><p className="dim">its devices do not report it</p></figure>;
}

/** What the chart under the cursor has at an instant, and what happened there. */
function toldAt(drawn: Drawn, at: number, marks: Props["marks"], range: number): { at: number; rows: Told[] } {
  const kind = SHOWN[READINGS.indexOf(drawn.reading)]!;
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
