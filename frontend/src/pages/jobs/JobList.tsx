/** The queue: what runs, what waits and why, what has ended. */
import type { Job, JobPage } from "../../api/types";
import { openCommand, useTrusted } from "../../lib/access";
import { count, DASH, duration, hourOf } from "../../lib/format";
import { jobLink, keep } from "../../lib/router";
import { Command } from "../../parts/Command";
import { Notice, Trouble } from "../../parts/Notice";
import { type Column, Table } from "../../parts/Table";
import { useJobs } from "./queries";
import { expected, jobState, matches, STATES, summary, timeText } from "./words";

export function JobList({ search, query }: { search: string; query: URLSearchParams }) {
  const state = query.get("state") ?? "";
  const found = useJobs(state);
  const trusted = useTrusted();
  const page = found.data;
  const rows = page?.jobs.filter((job) => matches(job, search)) ?? [];
  return (
    <section className="jobs-list">
      <div className="page-head">
        <h1>Jobs</h1>
        {page && <p className="dim" role="status">{summary(page)}{page.paused && ", the queue is paused"}</p>}
        <label className="choice">
          <span className="dim">state</span>
          <select value={state} aria-label="state" onChange={(event) => keep(new URLSearchParams(event.target.value ? { state: event.target.value } : {}))}>
            {STATES.map(([value, text]) => <option key={value} value={value}>{text}</option>)}
          </select>
        </label>
        <Command text="andon jobs" />
      </div>
      {found.error && <Trouble problem={found.error} what="Jobs cannot be read" />}
      {found.isPending && <p className="dim">Loading…</p>}
      {page?.paused && <Notice title="The queue is paused"><p>Nothing starts until <Command text="andon jobs start" /></p></Notice>}
      {rows.length > 0 && page && <Table caption="jobs" columns={columnsOf(rows, page)} rows={rows} rowKey={(job) => String(job.number)} stacked />}
      {page && rows.length === 0 && (page.jobs.length > 0 || state || search.trim() ? <Notice title="No job matches" /> : <Empty />)}
      {page && page.others.length > 0 && <Others page={page} />}
      {page && <p className="dim whose">Jobs of {page.user}, who runs this server{page.note && ` · ${page.note}`}{!page.whole && !trusted && <> · Sign in to see names and commands: <Command text={openCommand()} /></>}</p>}
    </section>
  );
}

function columnsOf(rows: Job[], page: JobPage): Column<Job>[] {
  const any = (has: (job: Job) => unknown) => rows.some((job) => has(job));
  const columns: (Column<Job> | false)[] = [
    { name: "job", by: (job) => job.number, cell: (job) => <><a href={jobLink(job.number)}>{job.label}</a> {page.whole && <span className="name" title={job.name}>{job.name}</span>}{job.simulated && <span className="dim"> simulated</span>}</> },
    { name: "state", by: (job) => job.state, cell: (job) => <JobMark job={job} /> },
    any((job) => job.position) && { name: "place", by: (job) => job.position, cell: (job) => job.position ?? DASH, number: true },
    { name: "GPU", cell: (job) => (job.devices.length ? job.devices.join(", ") : <span className="dim">{job.gpus} requested</span>) },
    { name: "submitted", by: (job) => job.submitted_at, cell: (job) => hourOf(job.submitted_at), wide: true },
    { name: "time", cell: (job) => timeText(job, page.at), number: true },
    any((job) => job.expected_start) && { name: "expected start", by: (job) => job.expected_start, cell: (job) => expected(job) },
    any((job) => job.reason ?? job.error) && { name: "why", cell: (job) => job.reason ?? job.error ?? DASH, rest: true },
  ];
  return columns.filter((column) => column !== false);
}

export function JobMark({ job }: { job: Pick<Job, "state"> }) {
  const { sign, word, tone } = jobState(job.state);
  return <span className={`run-state ${tone}`}><span aria-hidden="true">{sign}</span> {word}</span>;
}

function Others({ page }: { page: JobPage }) {
  return (
    <>
      <h2>Queued jobs of others</h2>
      <ol className="plain waiting">
        {page.others.map((one) => (
          <li key={`${one.position}-${one.user}`}>
            <b className="place">{one.position}</b> <b>{one.user}</b> requests {count(one.gpus, "GPU")}
            <span className="dim"> · waiting {duration(page.at - one.since)}{one.jobs_behind > 0 && ` · ${count(one.jobs_behind, "more job")} behind it`}</span>
          </li>
        ))}
      </ol>
    </>
  );
}

function Empty() {
  return (
    <Notice title="No jobs yet">
      <p>A job waits for its GPUs, runs, and keeps its output:</p>
      <p><Command text="andon submit --gpus 1 -- python train.py" /></p>
      <p>Several at once, from a file: <Command text="andon submit jobs.toml" /></p>
    </Notice>
  );
}
