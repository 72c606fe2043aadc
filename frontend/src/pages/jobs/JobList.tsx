/** The queue: what runs, what waits and why, on a timeline and in a table; and folded what has ended. */
import { useState } from "react";
import { useJobs } from "../../api/ports";
import { useHub, useSession } from "../../api/server";
import type { Device, Job, JobPage, QueuePlace } from "../../api/types";
import { useTrusted } from "../../lib/access";
import { count, DASH, duration, hourOf, inGib, unbroken } from "../../lib/format";
import { jobKey, jobName, userNamed } from "../../lib/jobs";
import { deviceLink, jobLink, keep, orderIn, withQuery } from "../../lib/router";
import { live, useLive, useSilence } from "../../live/store";
import { Command } from "../../parts/Command";
import { Loading } from "../../parts/Loading";
import { Notice, Trouble } from "../../parts/Notice";
import { SignInLink, Unseen } from "../../parts/SignIn";
import { type Column, Table } from "../../parts/Table";
import { Timeline } from "../../parts/Timeline";
import { OnNodes } from "../../parts/OnNodes";
import { Acts } from "./Acts";
import { Submit } from "./Submit";
import { progressText } from "../../lib/progress";
import { jobId, moreWaiting, QUEUE, RANGES, rowsOf, spansOf, windowOf } from "./timeline";
import { awayText, expected, jobState, matches, split, STATES, summary, timeText, whereText, whyText } from "./words";

const PAGE = 25;

export function JobList({ search, query }: { search: string; query: URLSearchParams }) {
  const state = query.get("state") ?? "";
  const found = useJobs((jobs) => jobs.list(state));
  const trusted = useTrusted();
  const silence = useSilence();
  const hub = useHub();
  const page = found.data;
  const none = page !== undefined && page.counts.running + page.counts.waiting + page.counts.ended === 0;
  const unseen = none && page.shared && !trusted;
  const rows = page?.jobs.filter((job) => matches(job, search)) ?? [];
  const { ahead, ended } = split(rows);
  return (
    <section className="jobs-list">
      <div className="page-head">
        <h1>Jobs</h1>
        {page && !hub && !unseen && !(none && silence) && <p className="dim" role="status">{summary(page)}{page.paused && ", the queue is paused"}</p>}
        <label className="choice">
          <span className="dim">state</span>
          <select value={state} aria-label="state" onChange={(event) => keep(withQuery(query, { state: event.target.value }))}>
            {STATES.map(([value, text]) => <option key={value} value={value}>{text}</option>)}
          </select>
        </label>
        {page && !none && <Submit />}
        <Command text="andon jobs" />
      </div>
      <OnNodes page="jobs" />
      {found.error && <Trouble problem={found.error} what="Jobs cannot be read" />}
      {found.isPending && <Loading what="jobs" />}
      {page?.paused && <Notice title="The queue is paused"><p>Nothing starts until <Command text="andon jobs start" /></p></Notice>}
      {rows.length > 0 && page && <Plan page={page} rows={rows} query={query} />}
      {ahead.length > 0 && page && <Table caption="jobs" columns={columnsOf(ahead, page, query)} rows={ahead} rowKey={jobKey} stacked {...orderIn(query)} />}
      {page && <Queue page={page} />}
      {ended.length > 0 && page && <Ended jobs={ended} page={page} query={query} open={ahead.length === 0 || search.trim() !== ""} />}
      {page && rows.length === 0 && (unseen ? <Unseen what="jobs" command="andon jobs" /> : none ? (silence === null ? <Empty page={page} /> : <Notice title={silence}><p>No job of it was known when it last reported.</p></Notice>) : <Notice title="No job matches" />)}
      {page?.clusters.map((cluster) => { const text = awayText(cluster, page.at); return text && <p key={cluster.name} className="why-job" role="status">{text}</p>; })}
      {page && !unseen && <p className="dim whose">{whose(page)}{page.note && ` · ${page.note}`}{!page.whole && !trusted && <> · <SignInLink to={page.shared ? "to see your own jobs" : "to see names and commands"} /></>}</p>}
    </section>
  );
}

const aheadOf = (job: Job): number | null => job.progress?.expected_end ?? job.expected_start ?? (job.progress ? Infinity : null);
const NO_DEVICES: Device[] = [];

/** The timeline, and what can be done to the job that was chosen in it or in the table. */
function Plan({ page, rows, query }: { page: JobPage; rows: Job[]; query: URLSearchParams }) {
  const devices = useLive((now) => now.snapshot?.devices ?? NO_DEVICES);
  const seconds = RANGES.find(([name]) => name === query.get("last"))?.[1] ?? 86_400;
  const spans = spansOf(rows, page.at);
  const [since, until] = windowOf(seconds, spans, page.at);
  const chosen = rows.find((job) => jobId(job) === query.get("job"));
  const lines = rowsOf(rows, devices.map((one) => ({ label: one.label, href: deviceLink(one.uuid) })));
  const more = moreWaiting(rows);
  const choose = (id: string | null) => keep(withQuery(query, { job: id === query.get("job") ? "" : (id ?? "") }));
  const whose = (chosen && userNamed(page, chosen)) ?? "";
  return (
    <section className="plan" aria-label="timeline">
      <div className="ranges">
        <span className="buttons" role="group" aria-label="time">
          {RANGES.map(([name, value]) => <button key={name} type="button" aria-pressed={value === seconds} onClick={() => keep(withQuery(query, { last: name }))}>{unbroken(name)}</button>)}
        </span>
        <span className="dim hint">Choose a bar to act on its job; arrow keys go from bar to bar.</span>
      </div>
      <Timeline caption="jobs by GPU" rows={lines.map((one) => (one.id === QUEUE && more ? { ...one, title: `waiting ${more}` } : one))} spans={spans} since={since} until={until} now={page.at} chosen={chosen ? jobId(chosen) : null} onChoose={choose} />
      {chosen && (
        <div className="chosen-job" role="region" aria-label={`job ${chosen.label}`}>
          <p><JobMark job={chosen} /> <b>Job <a href={jobLink(jobName(chosen), whose || undefined)}>{chosen.label}</a>{page.whole && ` ${chosen.name}`}</b> <span className="dim">of {chosen.user} · {(chosen.reason ?? chosen.error ? whyText(chosen) : "") || [whereText(chosen), timeText(chosen, page.at)].join(" · ")}</span> <button type="button" className="quiet" aria-label="choose no job" onClick={() => choose(null)}>✕</button></p>
          {chosen.command !== "hidden" && <Acts key={jobId(chosen)} job={chosen} user={whose} />}
        </div>
      )}
    </section>
  );
}

function columnsOf(rows: Job[], page: JobPage, query: URLSearchParams): Column<Job>[] {
  const any = (has: (job: Job) => unknown) => rows.some((job) => has(job));
  const columns: (Column<Job> | false)[] = [
    { name: "job", by: (job) => job.number, cell: (job) => <><a href={jobLink(jobName(job), userNamed(page, job))}>{job.label}</a> {page.whole && <span className="name" title={job.name}>{job.name}</span>}{job.simulated && !live.get().snapshot?.simulated && <span className="dim"> simulated</span>}</> },
    (page.scope === "everyone" || page.scope === "node") && { name: "user", by: (job) => job.user, cell: (job) => job.user },
    { name: "state", by: (job) => job.state, cell: (job) => <JobMark job={job} /> },
    any((job) => job.position) && { name: "place", by: (job) => job.position, cell: (job) => job.position ?? DASH, number: true },
    any((job) => job.engine) && { name: "where", by: whereText, cell: whereText },
    any((job) => job.engine)
      ? { name: "GPUs", cell: (job) => job.gpus || DASH, number: true }
      : { name: "GPU", cell: (job) => (job.devices.length ? job.devices.join(", ") : <span className="dim">{job.gpus} requested</span>) },
    { name: "submitted", by: (job) => job.submitted_at, cell: (job) => hourOf(job.submitted_at), wide: true },
    { name: "time", cell: (job) => timeText(job, page.at), number: true },
    any(aheadOf) && { name: "ahead", by: aheadOf, cell: (job) => (job.progress ? progressText(job.progress, page.at) : job.expected_start === null ? DASH : `starts ${expected(job)}`) },
    any((job) => job.reason ?? job.error) && { name: "why", cell: whyText, rest: true },
  ];
  columns.push({ name: "act", acts: true, cell: (job) => <button type="button" className="quiet" aria-pressed={jobId(job) === query.get("job")} aria-label={`act on job ${job.label}`} onClick={() => keep(withQuery(query, { job: jobId(job) === query.get("job") ? "" : jobId(job) }))}>⋯</button> });
  return columns.filter((column) => column !== false);
}

/** The newest first, a page at a time. */
function Ended({ jobs, page, query, open }: { jobs: Job[]; page: JobPage; query: URLSearchParams; open: boolean }) {
  const [from, setFrom] = useState(0);
  const first = Math.min(from, PAGE * Math.floor((jobs.length - 1) / PAGE));
  const shown = jobs.slice(first, first + PAGE);
  return (
    <details className="fold" open={open}>
      <summary>{jobs.length} ended</summary>
      <Table caption="ended jobs" columns={columnsOf(shown, page, query)} rows={shown} rowKey={jobKey} stacked {...orderIn(query)} />
      {jobs.length > PAGE && (
        <p className="buttons pages">
          <button type="button" disabled={first === 0} onClick={() => setFrom(first - PAGE)}>◀ later</button>
          <span className="dim">{first + 1}–{first + shown.length} of {jobs.length}</span>
          <button type="button" disabled={first + PAGE >= jobs.length} onClick={() => setFrom(first + PAGE)}>earlier ▶</button>
        </p>
      )}
    </details>
  );
}

export function JobMark({ job }: { job: Pick<Job, "state"> }) {
  const { sign, word, tone } = jobState(job.state);
  return <span className={`run-state ${tone}`}><span aria-hidden="true">{sign}</span> {word}</span>;
}

/** Everyone who waits for GPUs, in the order of their turns, where not all of them are jobs of the list above; names and commands are nobody else's business. */
function Queue({ page }: { page: JobPage }) {
  const session = useSession();
  const listed = (one: QueuePlace) => page.jobs.some((job) => job.position === one.position && job.user === one.user);
  if (page.queue.every(listed)) return null;
  const columns: Column<QueuePlace>[] = [
    { name: "place", cell: (one) => one.position, number: true },
    { name: "user", cell: (one) => <>{one.user}{one.user === session?.user && <span className="dim"> (you)</span>}</> },
    { name: "GPUs", cell: (one) => `${one.gpus}${one.memory_bytes !== null ? ` with ${inGib(one.memory_bytes)}` : ""}`, number: true },
    { name: "waiting", cell: (one) => duration(Math.max(0, page.at - one.since)), number: true },
    { name: "why it waits", cell: (one) => <>{unbroken(one.reason ?? "")}{one.jobs_behind ? <span className="dim"> · {count(one.jobs_behind, "more job")} behind it</span> : null}</>, rest: true },
  ];
  return (
    <>
      <h2>Queue</h2>
      <Table caption="queue of this machine" columns={columns} rows={page.queue} rowKey={(one) => `${one.position} ${one.user} ${one.since}`} stacked />
    </>
  );
}

function whose(page: JobPage): string {
  if (page.scope === "node") return `The jobs on ${live.get().snapshot?.node ?? "this node"}`;
  if (page.scope === "own") return `The jobs of ${page.user} on this machine`;
  if (page.scope === "everyone") return "The jobs of everyone who signed in here, or holds or waits for GPUs";
  return `Jobs of ${page.user}, who runs this server`;
}

function Empty({ page }: { page: JobPage }) {
  const title = page.scope === "own" ? "You have no jobs on this machine" : "No jobs yet";
  return (
    <Notice title={title}>
      <p>A job waits for its GPUs, runs, and keeps its output.</p>
      <p><Submit /></p>
    </Notice>
  );
}
