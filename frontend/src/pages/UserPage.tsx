/** One user: their GPUs now, their week, jobs and runs, and what that used. */
import { useMemo, useState } from "react";
import { useFeatures } from "../api/asking";
import type { Problem } from "../api/client";
import { useJobs, usePast, useRuns } from "../api/ports";
import { useHub } from "../api/server";
import type { Device, Job, Process, RunEntry, Week } from "../api/types";
import { useTrusted } from "../lib/access";
import { count, DASH, duration, energy, gib, hourOf, percent, withUnit } from "../lib/format";
import { jobName, userNamed } from "../lib/jobs";
import { deviceLink, jobLink, processLink, runLink } from "../lib/links";
import { costOf } from "../lib/people";
import { live, useLive } from "../live/store";
import { Loading } from "../parts/Loading";
import { OnNodes } from "../parts/OnNodes";
import { SignInLink } from "../parts/SignIn";
import { type Column, Table } from "../parts/Table";
import { jobState, timeText } from "./jobs/words";
import { stateOf } from "./runs/words";

type Share = Week["items"][number];

interface There {
  device: Device;
  process: Process;
}

const MOST_ROWS = 30;
const MINUTE_MS = 60_000;
const HOUR = 3600;
const RANGE_DAYS = 7;
const DAY = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric" });
const MONTH = new Intl.DateTimeFormat(undefined, { month: "long", year: "numeric" });
const hours = (seconds: number): string => (seconds > 0 && seconds < 360 ? duration(seconds) : withUnit(seconds / HOUR, "h", 1));

export function UserPage({ name }: { name: string }) {
  const snapshot = useLive((now) => now.snapshot);
  const week = usePast((past) => past.users());
  const there = useMemo(() => (snapshot?.devices ?? []).flatMap((device) => device.processes.filter((one) => one.user === name).map((process) => ({ device, process }))), [snapshot, name]);
  const hub = useHub();
  if (!snapshot) return <Loading what="this user" />;
  const own = week.data?.items.find((one) => one.user === name);
  const gpus = new Set(there.map((one) => one.device.uuid)).size;
  return (
    <article className="person">
      <div className="page-head">
        <h1>{name}</h1>
        <p className="dim">{hub ? "on all nodes" : gpus ? `on ${count(gpus, "GPU")} now` : "on no GPU now"}{!hub && `, and the last ${RANGE_DAYS} days`}</p>
      </div>
      <OnNodes page="user" user={name} />
      <Sums own={own} week={week.data} problem={week.error} />
      <div className="person-halves">
        <Now there={there} at={snapshot.at} />
        {own && <Days own={own} />}
        <Jobs name={name} at={snapshot.at} />
        <Runs name={name} />
      </div>
      <Months name={name} />
    </article>
  );
}

/** Of a value that is not known, why. */
function Sums({ own, week, problem }: { own: Share | undefined; week: Week | undefined; problem: Problem | null }) {
  if (problem) return <p className="dim">The week is not known: {problem.oneLine}</p>;
  if (!week) return <Loading what="the week" />;
  if (!own) return <p className="dim">No GPU use of theirs is recorded in the last {RANGE_DAYS} days.</p>;
  const share = (value: number | null) => (value === null ? "not known" : percent(100 * value));
  const cost = costOf(own.energy_joules, week.price_per_kwh);
  const facts: [string, string, string][] = [
    ["GPU time", hours(own.device_seconds), "the time of each GPU on which a process of theirs was"],
    ["idle", share(own.idle_share), own.idle_share === null ? "their GPUs did not report utilisation" : "of that time, at 0 % utilisation"],
    ["held idle", share(own.held_idle_share), own.held_idle_share === null ? "their GPUs did not report utilisation" : "of that time, idle for half an hour or longer"],
    ["energy", own.energy_joules === null ? "not known" : energy(own.energy_joules), own.energy_joules === null ? "their GPUs did not report power" : "of those GPUs meanwhile"],
    ["cost", cost === null ? "not known" : `${cost.toFixed(2)} ${week.currency ?? ""}`, cost === null ? (week.price_per_kwh === null ? "no price is set (runs.price_per_kwh)" : "the energy is not known") : `at ${week.price_per_kwh} ${week.currency ?? ""} per kWh`],
  ];
  return (
    <dl className="strip large sums">
      {facts.map(([label, value, why]) => <div key={label}><dt>{label} <span>{why}</span></dt><dd>{value}</dd></div>)}
    </dl>
  );
}

const PROCESSES: Column<There & { at: number }>[] = [
  { name: "GPU", by: (one) => one.device.index, cell: (one) => <a href={deviceLink(one.device.uuid)}>{live.label(one.device.uuid)}</a>, number: true },
  { name: "program", by: (one) => one.process.program, cell: (one) => <a href={processLink(one.process)}>{one.process.program ?? `pid ${one.process.pid}`}</a> },
  { name: "memory GiB", by: (one) => one.process.memory_bytes, cell: (one) => gib(one.process.memory_bytes), number: true },
  { name: "GPU busy", by: (one) => one.device.sample?.utilization_percent ?? null, cell: (one) => percent(one.device.state === "ok" ? one.device.sample?.utilization_percent : null), number: true },
  { name: "running", by: (one) => one.process.started, cell: (one) => (one.process.started === null ? DASH : duration(one.at - one.process.started)), number: true },
];

function Now({ there, at }: { there: There[]; at: number }) {
  const rows = useMemo(() => there.map((one) => ({ ...one, at })), [there, at]);
  return (
    <section>
      <h2>GPUs now</h2>
      {rows.length === 0 ? <p className="dim">No process of theirs is on a GPU.</p> : (
        <Table caption="GPUs now" columns={PROCESSES} rows={rows} rowKey={(one) => `${one.device.uuid}-${one.process.pid}-${one.process.started}`} sort="memory GiB" />
      )}
    </section>
  );
}

/** GPU hours by day, all on one scale. */
function Days({ own }: { own: Share }) {
  const most = Math.max(1, ...own.days.map((one) => one.device_seconds));
  return (
    <section>
      <h2>GPU time by day</h2>
      <ul className="plain days">
        {own.days.map((one) => (
          <li key={one.day}>
            <span>{DAY.format(new Date(`${one.day}T12:00`))}</span>
            <i aria-hidden="true"><b style={{ width: `${(100 * one.device_seconds) / most}%` }} /></i>
            <span>{hours(one.device_seconds)} <span className="dim">{one.energy_joules === null ? "energy not known" : energy(one.energy_joules)}</span></span>
          </li>
        ))}
      </ul>
    </section>
  );
}

interface Month {
  who: string;
  month: Share["days"][number];
  cost: number | null;
}

const PAST_MONTHS = 11; // and this one
const MONTHS: Column<Month>[] = [
  { name: "month", by: (one) => one.month.day, cell: (one) => MONTH.format(new Date(`${one.month.day}-15T12:00`)) },
  { name: "who", by: (one) => one.who, cell: (one) => one.who },
  { name: "GPU time", by: (one) => one.month.device_seconds, cell: (one) => hours(one.month.device_seconds), number: true },
  { name: "idle", by: (one) => one.month.idle_share, cell: (one) => percent(one.month.idle_share === null ? null : 100 * one.month.idle_share), number: true },
  { name: "energy", by: (one) => one.month.energy_joules, cell: (one) => energy(one.month.energy_joules), number: true },
  { name: "cost", by: (one) => one.cost, cell: (one) => (one.cost === null ? DASH : one.cost.toFixed(2)), number: true },
];

/** A year by month: of this user, of everyone, or of groups. */
function Months({ name }: { name: string }) {
  const [of, setOf] = useState("");
  const [since] = useState(() => { const now = new Date(); return new Date(now.getFullYear(), now.getMonth() - PAST_MONTHS, 1).getTime() / 1000; });
  const year = usePast((past) => past.months(of === "groups" ? "group" : "user", since));
  const rows = useMemo(() => (year.data?.items ?? []).filter((one) => of !== "" || one.user === name).flatMap((one) =>
    one.days.map((month) => ({ who: one.user, month, cost: costOf(month.energy_joules, year.data?.price_per_kwh ?? null) }))), [year.data, of, name]);
  const money = year.data && (year.data.price_per_kwh === null ? "no price is set (runs.price_per_kwh)" : `at ${year.data.price_per_kwh} ${year.data.currency ?? ""} per kWh`);
  return (
    <section>
      <h2>By month</h2>
      <p><select aria-label="whose months" value={of} onChange={(event) => setOf(event.target.value)}>
        <option value="">{name}</option><option value="users">every user</option><option value="groups">groups</option>
      </select> <span className="dim">cost: {money ?? "not known"}</span></p>
      {year.error ? <p className="dim">Not known: {year.error.oneLine}</p> : year.isPending ? <Loading what="the months" />
        : rows.length === 0 ? <p className="dim">No GPU use is recorded in these months.</p>
        : <Table caption="by month" columns={MONTHS} rows={rows} rowKey={(one) => `${one.month.day}-${one.who}`} sort="month" />}
    </section>
  );
}

const RUNS: Column<RunEntry>[] = [
  { name: "run", by: (run) => run.name, cell: (run) => <a href={runLink(run.id)}>{run.name}</a> },
  { name: "state", by: (run) => run.state, cell: (run) => { const { sign, word, tone } = stateOf(run.state); return <span className={`run-state ${tone}`}>{sign} {word}</span>; } },
  { name: "began", by: (run) => run.began, cell: (run) => hourOf(run.began), number: true },
  { name: "util", by: (run) => run.mean_utilization_percent, cell: (run) => percent(run.mean_utilization_percent), number: true },
  { name: "energy", by: (run) => run.energy_joules, cell: (run) => energy(run.energy_joules, run.energy_source), number: true },
];

function Runs({ name }: { name: string }) {
  const there = useFeatures()["runs"] === true;
  const found = useRuns((all) => all.latest({ every: MINUTE_MS }));
  const rows = found.data?.items.filter((run) => run.user === name).slice(0, MOST_ROWS) ?? [];
  return <Listed title="Runs" there={there} loading={found.isPending} problem={found.error} empty={`No run of ${name} is among those that you may see.`} filled={rows.length > 0}>
    <Table caption="runs" columns={RUNS} rows={rows} rowKey={(run) => run.id} sort="began" />
  </Listed>;
}

function Jobs({ name, at }: { name: string; at: number }) {
  const there = useFeatures()["jobs"] === true;
  const found = useJobs((all) => all.list("", "jobs"));
  const page = found.data;
  const rows = page?.jobs.filter((job) => job.user === name).slice(0, MOST_ROWS) ?? [];
  const columns: Column<Job>[] = [
    { name: "job", by: (job) => job.number, cell: (job) => <a href={jobLink(jobName(job), page && userNamed(page, job))}>{job.label} {job.name}</a> },
    { name: "state", by: (job) => job.state, cell: (job) => { const { sign, word, tone } = jobState(job.state); return <span className={`run-state ${tone}`}>{sign} {word}</span>; } },
    { name: "GPUs", by: (job) => job.gpus, cell: (job) => (job.devices.length ? `GPU ${job.devices.join(", ")}` : <span className="dim">{job.gpus} requested</span>) },
    { name: "time", by: (job) => job.seconds, cell: (job) => timeText(job, at), number: true },
  ];
  return <Listed title="Jobs" there={there} loading={found.isPending} problem={found.error} empty={`No job of ${name} is among those that you may see.`} filled={rows.length > 0}>
    <Table caption="jobs" columns={columns} rows={rows} rowKey={(job) => job.label} />
  </Listed>;
}

interface ListedProps {
  title: string;
  there: boolean;
  loading: boolean;
  problem: Problem | null;
  empty: string;
  filled: boolean;
  children: React.ReactNode;
}

function Listed({ title, there, loading, problem, empty, filled, children }: ListedProps) {
  const trusted = useTrusted();
  let said: React.ReactNode = null;
  if (!there) said = `This server has no ${title.toLowerCase()}.`;
  else if (problem) said = `Not known: ${problem.oneLine}`;
  else if (loading) said = "Loading…";
  else if (!filled) said = <>{empty} {!trusted && <SignInLink to="to see your own." />}</>;
  return <section><h2>{title}</h2>{said ? <p className="dim">{said}</p> : children}</section>;
}
