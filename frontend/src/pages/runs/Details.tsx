/** One run: how it ended, what it used of each GPU, its charts, and what it was. */
import { type ReactNode, useState } from "react";
import type { Problem } from "../../api/client";
import { useRuns } from "../../api/ports";
import type { RunDetails, RunMark, RunUse } from "../../api/types";
import { count, DASH, dateOf, gib, inGib, measured, momentOf, percent, unbroken, used } from "../../lib/format";
import { progressText } from "../../lib/progress";
import { deviceLink, leaseLink, runLink } from "../../lib/router";
import { live, useLive } from "../../live/store";
import { Command } from "../../parts/Command";
import { Loading } from "../../parts/Loading";
import { Notice, Trouble } from "../../parts/Notice";
import { type Column, Table } from "../../parts/Table";
import { energyOf, peakOf, utilizationOf } from "./data";
import { Gpus, State } from "./List";
import { download, useRunsOf } from "./queries";
import { Remarks } from "./Remarks";
import { isClock, RunCharts } from "./RunCharts";
import { nothingDrawn, readText, share, sinceStart, spreadText } from "./words";

const MOST_LISTED = 200;
const NO_MARKS: RunMark[] = [];

export function Details({ id, query }: { id: string; query: URLSearchParams }) {
  const [found] = useRunsOf([id]);
  const marks = useRuns((runs) => runs.marks(id, found?.data !== undefined));
  if (found?.error && !found.data) return <Unknown problem={found.error} />;
  const run = found?.data;
  if (!run) return <Loading what="this run" />;
  const happened = marks.data?.items ?? NO_MARKS;
  const nothing = nothingDrawn(run);
  const reading = readText(run.read);
  return (
    <article className="run-page">
      <Head run={run} />
      <Remarks run={run} />
      {found.error && <Trouble problem={found.error} what="This run can no longer be read; showing what was read" />}
      {run.message && run.state !== "succeeded" && <p className="run-message">{unbroken(run.message)}</p>}
      <Box run={run} />
      {run.uses.length > 0 && <Table caption="GPUs of this run" columns={COLUMNS} rows={run.uses} rowKey={(use) => use.uuid} stacked />}
      {reading && <p className="dim" role="status">{reading}</p>}
      {nothing === null ? <RunCharts run={run} marks={happened} query={query} /> : (
        <Notice title="No charts"><p>{nothing}</p></Notice>
      )}
      <div className="below">
        <Facts run={run} />
        <div>
          <Happened items={happened} omitted={marks.data?.omitted ?? 0} note={marks.data?.note ?? marks.error?.reason ?? null} time={(at) => (isClock(query) ? momentOf(run.began + at).slice(11) : sinceStart(at))} />
          <Chosen run={run} />
        </div>
      </div>
    </article>
  );
}

function Unknown({ problem }: { problem: Problem }) {
  return (
    <>
      <Trouble problem={problem} what="This run cannot be shown" whole />
      <p><a href="#/runs">All runs</a></p>
    </>
  );
}

function Head({ run }: { run: RunDetails }) {
  const [problem, setProblem] = useState<Problem | null>(null);
  const [saving, setSaving] = useState(false);
  const save = () => {
    setSaving(true);
    void download(run.id).then(setProblem).finally(() => setSaving(false));
  };
  return (
    <>
      <div className="page-head">
        <h1>{run.name}</h1>
        <State run={run} />
        {run.simulated && !live.get().snapshot?.simulated && <span className="simulated">SIMULATED</span>}
        <p className="dim">{[run.user, run.node, dateOf(run.began)].filter(Boolean).join(" · ")} · <code>{run.id}</code></p>
        <span className="buttons">
          {run.downloadable && <button type="button" onClick={save} disabled={saving}>{saving ? "Saving…" : "Download record"}</button>}
        </span>
        <Command text={`andon runs show ${run.id}`} />
      </div>
      {problem && <Trouble problem={problem} what="The record cannot be downloaded" onClose={() => setProblem(null)} />}
    </>
  );
}

function Box({ run }: { run: RunDetails }) {
  const now = useLive((one) => (run.state === "running" ? (one.snapshot?.at ?? null) : null));
  const seconds = now === null ? run.duration_seconds : Math.max(run.duration_seconds ?? 0, now - run.began);
  const rows: [string, ReactNode][] = [
    [run.state === "running" ? "running for" : "duration", seconds === null ? DASH : measured(seconds)],
    ...(run.progress === null ? [] : [["progress", progressText(run.progress, now ?? Date.now() / 1000)] as [string, ReactNode]]),
    ["samples", run.samples ?? DASH],
    ["GPUs", <Gpus key="gpus" run={run} />],
    ["utilisation", percent(utilizationOf(run))],
    ["peak memory", used(peakOf(run), null, "GiB", gib)],
    ["energy", energyOf(run)],
  ];
  if (run.idle_share !== null) rows.push(["idle", share(run.idle_share)]);
  if (run.waited_seconds) rows.push(["waited", measured(run.waited_seconds)]);
  if (run.exit_code !== null && run.exit_code !== 0) rows.push(["exit code", run.exit_code]);
  for (const [name, value] of Object.entries(run.last_values).slice(0, 6)) rows.push([name, Number(value.toPrecision(5))]);
  return <dl className="run-box">{rows.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}

/** Mean (least–most) of each. */
const COLUMNS: Column<RunUse>[] = [
  { name: "GPU ID", cell: (use) => (live.device(use.uuid) ? <a href={deviceLink(use.uuid)}>{use.label}</a> : use.label) },
  { name: "Model", cell: (use) => use.name },
  { name: "Utilisation", cell: (use) => spreadText(use, "utilization_percent", "%"), number: true },
  { name: "Memory", cell: (use) => spreadText(use, "memory_used_bytes", "GiB"), number: true },
  { name: "Temperature", cell: (use) => spreadText(use, "temperature_celsius", "°C"), number: true },
  { name: "Power", cell: (use) => spreadText(use, "power_watts", "W"), number: true },
];

function Facts({ run }: { run: RunDetails }) {
  const git = run.git ? `${run.git.commit.slice(0, 12)}${run.git.dirty ? ", with changes" : ""}` : run.git_reason;
  const versions = Object.entries(run.versions).map(([name, version]) => `${name} ${version}`).join(", ") || run.versions_reason;
  const oom = run.out_of_memory;
  const rows: [string, ReactNode][] = ([
    ["command", run.command && <code>{run.command}</code>],
    ["folder", run.working_directory],
    ["parameters", run.params && Object.entries(run.params).map(([name, value]) => `${name}=${value}`).join(", ")],
    ["git commit", git],
    ["versions", versions],
    ["lease", run.lease && run.state === "running" ? <a href={leaseLink(run.lease)}>{run.lease}</a> : run.lease],
    ["part of", run.parent && <a href={runLink(run.parent)}>{run.parent}</a>],
    ["group", run.group && <a href={`#/runs?group=${encodeURIComponent(run.group)}`}>{run.group}</a>],
    ["rank", run.rank === null ? null : `${run.rank}${run.world_size ? ` of ${run.world_size}` : ""}`],
    ["tags", run.tags.join(", ")],
    ["out of memory", oom && [oom.reported_by, oom.wanted_bytes !== null && `wanted ${inGib(oom.wanted_bytes)}`, oom.free_bytes !== null && `${inGib(oom.free_bytes)} free`].filter(Boolean).join(", ")],
    ["not written", run.dropped ? count(run.dropped, "line") : null],
    ["unreadable", run.read.unreadable ? `${count(run.read.unreadable, "line")}: ${run.read.problem}` : null],
    ["record", run.path && <code>{run.path}</code>],
  ] as [string, ReactNode][]).filter(([, value]) => value);
  return (
    <section className="panel">
      <h2>What it was</h2>
      <dl className="facts">{rows.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      {run.hidden && <p className="dim">Command, folders, parameters and the record: {run.hidden}. <a href="#/sign-in">Sign in</a></p>}
    </section>
  );
}

/** Events, items and alerts, the latest first. */
function Happened({ items, omitted, note, time }: { items: RunMark[]; omitted: number; note: string | null; time: (at: number) => string }) {
  const shown = items.slice(-MOST_LISTED).reverse();
  const more = omitted + items.length - shown.length;
  return (
    <section className="panel">
      <h2>What happened</h2>
      {shown.length === 0 && <p className="dim">no events, items or alerts</p>}
      <ol className="plain happened">
        {shown.map((mark, place) => (
          <li key={`${mark.at} ${place}`} className={mark.failed || mark.level === "critical" ? "wrong" : undefined}>
            <span className="dim">{time(mark.at)}</span> <span>{mark.level && `${mark.level}: `}{mark.title}{mark.detail && <span className="dim"> {mark.detail}</span>}</span>
          </li>
        ))}
      </ol>
      {more > 0 && <p className="dim">and {more} earlier</p>}
      {note && <p className="dim">{note}</p>}
    </section>
  );
}

/** How the GPUs were chosen, and how each candidate stood. */
function Chosen({ run }: { run: RunDetails }) {
  const { gpu_info: info } = run.gpu_info;
  if (!info.details.length && !info.allocation_method) return null;
  return (
    <section className="panel">
      <h2>How the GPUs were chosen</h2>
      {info.allocation_method && <p>Chosen by: {info.allocation_method}</p>}
      {info.details.length > 0 && (
        <Table caption="candidates" rows={info.details} rowKey={(one) => String(one.index)} columns={[
          { name: "GPU", cell: (one) => <>{one.index}{one.chosen && <b> chosen</b>}</> },
          { name: "free GiB", cell: (one) => (one.memory_free_mb === null ? DASH : (one.memory_free_mb / 1024).toFixed(1)), number: true },
          { name: "util", cell: (one) => percent(one.utilization_percent), number: true },
          { name: "score", cell: (one) => (one.availability_score === null ? DASH : one.availability_score.toFixed(2)), number: true },
          { name: "why not", cell: (one) => one.obstacle ?? "" },
        ]} />
      )}
    </section>
  );
}
