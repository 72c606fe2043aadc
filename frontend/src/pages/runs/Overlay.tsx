/** Up to 24 runs over the time since each began. */
import type { RunDetails } from "../../api/types";
import { DASH, gib, measured, percent } from "../../lib/format";
import { swatchOf } from "../../charts/data";
import { runLink } from "../../lib/router";
import { Notice, Trouble } from "../../parts/Notice";
import { type Column, Table } from "../../parts/Table";
import { energyOf, lookAt, peakOf, utilizationOf } from "./data";
import { Gpus, State } from "./List";
import { useRunsOf } from "./queries";
import { OverlaidCharts } from "./RunCharts";
import { curveText, extremeText, namesOf, valueText } from "./curves";
import { MOST_OVERLAID, nothingDrawn } from "./words";
import { Command } from "../../parts/Command";

export function Overlay({ ids, query }: { ids: string[]; query: URLSearchParams }) {
  const asked = ids.slice(0, MOST_OVERLAID);
  const found = useRunsOf(asked);
  const runs = found.flatMap((one) => (one.data ? [one.data] : []));
  const drawn = runs.filter((run) => nothingDrawn(run) === null);
  return (
    <article className="run-page">
      <div className="page-head">
        <h1>{runs.length} runs</h1>
        <p className="dim">over the time since each began, or over its steps; a GPU's line is the mean of a run's GPUs</p>
        <Command text={`andon runs compare ${asked.join(" ")}`} />
      </div>
      {found.map((one, place) => one.error && <Trouble key={asked[place]} problem={one.error} what={`${asked[place]} cannot be shown`} />)}
      {ids.length > MOST_OVERLAID && <p className="dim">Only the first {MOST_OVERLAID} of {ids.length} are shown.</p>}
      {runs.length > 0 && <Table caption="runs" columns={[...columnsOf(drawn), ...valueColumns(runs)]} rows={runs} rowKey={(run) => run.id} stacked />}
      {drawn.length > 0 && <OverlaidCharts runs={drawn} query={query} />}
      {runs.length === asked.length && drawn.length === 0 && <Notice title="No charts"><p>None of these runs has samples or logged values.</p></Notice>}
    </article>
  );
}

function columnsOf(drawn: RunDetails[]): Column<RunDetails>[] {
  return [
    { name: "run", cell: (run) => <><i className="swatch" style={drawn.includes(run) ? swatchOf(lookAt(drawn.indexOf(run), "")) : { background: "none" }} /><a href={runLink(run.id)}>{run.name}</a> <code className="dim">{run.id}</code></> },
    { name: "state", cell: (run) => <State run={run} /> },
    { name: "GPUs", cell: (run) => <Gpus run={run} /> },
    { name: "duration", cell: (run) => (run.duration_seconds === null ? DASH : measured(run.duration_seconds)), number: true },
    { name: "util", cell: (run) => percent(utilizationOf(run)), number: true },
    { name: "peak GiB", cell: (run) => gib(peakOf(run)), number: true },
    { name: "energy", cell: (run) => energyOf(run), number: true },
  ];
}

const MOST_VALUES = 2;

/** Of the first values that were logged: the last, the lowest and the highest, and at which step. */
function valueColumns(runs: RunDetails[]): Column<RunDetails>[] {
  return namesOf(runs).slice(0, MOST_VALUES).flatMap((name): Column<RunDetails>[] => {
    const last = (run: RunDetails) => run.last_values[name];
    const extreme = (run: RunDetails, end: "lowest" | "highest") => extremeText("", run.curves[name]?.[end]) || DASH;
    return [
      { name, cell: (run) => <span title={run.curves[name] && curveText(run.curves[name])}>{last(run) === undefined ? DASH : valueText(last(run) as number)}</span>, number: true },
      { name: `lowest ${name}`, cell: (run) => extreme(run, "lowest"), number: true },
      { name: `highest ${name}`, cell: (run) => extreme(run, "highest"), number: true },
    ];
  });
}
