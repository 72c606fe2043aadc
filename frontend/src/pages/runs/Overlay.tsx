/** Up to eight runs over the time since each began. */
import type { RunDetails } from "../../api/types";
import { DASH, gib, measured, percent } from "../../lib/format";
import { runLink } from "../../lib/router";
import { Notice, Trouble } from "../../parts/Notice";
import { type Column, Table } from "../../parts/Table";
import { colourAt, energyOf, peakOf, utilizationOf } from "./data";
import { Gpus, State } from "./List";
import { useRunsOf } from "./queries";
import { OverlaidCharts } from "./RunCharts";
import { MOST_OVERLAID } from "./words";
import { Command } from "../../parts/Command";

export function Overlay({ ids, query }: { ids: string[]; query: URLSearchParams }) {
  const asked = ids.slice(0, MOST_OVERLAID);
  const found = useRunsOf(asked);
  const runs = found.flatMap((one) => (one.data ? [one.data] : []));
  const drawn = runs.filter((run) => run.series.at.length);
  return (
    <article className="run-page">
      <div className="page-head">
        <h1>{runs.length} runs</h1>
        <p className="dim">over the time since each began; a line is the mean of a run's GPUs</p>
        <Command text={`andon runs compare ${asked.join(" ")}`} />
      </div>
      {found.map((one, place) => one.error && <Trouble key={asked[place]} problem={one.error} what={`${asked[place]} cannot be shown`} />)}
      {ids.length > MOST_OVERLAID && <p className="dim">Only the first {MOST_OVERLAID} of {ids.length} are shown.</p>}
      {runs.length > 0 && <Table caption="runs" columns={columnsOf(drawn)} rows={runs} rowKey={(run) => run.id} stacked />}
      {drawn.length > 0 && <OverlaidCharts runs={drawn} query={query} />}
      {runs.length === asked.length && drawn.length === 0 && <Notice title="No charts"><p>None of these runs has samples.</p></Notice>}
    </article>
  );
}

function columnsOf(drawn: RunDetails[]): Column<RunDetails>[] {
  return [
    { name: "run", cell: (run) => <><i className="swatch" style={{ background: drawn.includes(run) ? `var(${colourAt(drawn.indexOf(run))})` : "none" }} /><a href={runLink(run.id)}>{run.name}</a> <code className="dim">{run.id}</code></> },
    { name: "state", cell: (run) => <State run={run} /> },
    { name: "GPUs", cell: (run) => <Gpus run={run} /> },
    { name: "duration", cell: (run) => (run.duration_seconds === null ? DASH : measured(run.duration_seconds)), number: true },
    { name: "util", cell: (run) => percent(utilizationOf(run)), number: true },
    { name: "peak GiB", cell: (run) => gib(peakOf(run)), number: true },
    { name: "energy", cell: (run) => energyOf(run), number: true },
  ];
}
