/** One job: how it stands, what it waits for, what it got, and its output as it grows. */
import { useEffect, useRef } from "react";
import { useJobs } from "../../api/ports";
import type { Job } from "../../api/types";
import { count, DASH, dateOf, duration, inGib, measured, unbroken } from "../../lib/format";
import { jobName } from "../../lib/jobs";
import { jobLink, leaseLink, runLink } from "../../lib/router";
import { live } from "../../live/store";
import { Command } from "../../parts/Command";
import { Loading } from "../../parts/Loading";
import { Trouble } from "../../parts/Notice";
import { SignInLink } from "../../parts/SignIn";
import { Acts } from "./Acts";
import { JobMark } from "./JobList";
import { useLog } from "./log";
import { progressText } from "../../lib/progress";
import { endText, expected, overwritten, whyText } from "./words";

const NEAR_END = 40; // pixels from the bottom that still count as following

export function JobDetails({ number, user }: { number: string; user: string }) {
  const found = useJobs((jobs) => jobs.one(number, user));
  const job = found.data;
  if (!job) return found.error ? <><Trouble problem={found.error} what={`Job ${number} cannot be shown`} whole /><p><a href="#/jobs">All jobs</a></p></> : <Loading what={`job ${number}`} />;
  const hidden = job.command === "hidden";
  return (
    <section className="job-page">
      <div className="page-head">
        <h1>Job {job.label}{!hidden && ` ${job.name}`}</h1>
        <p role="status"><JobMark job={job} /></p>
        {job.simulated && !live.get().snapshot?.simulated && <span className="simulated">SIMULATED</span>}
        {user && <p className="dim">of {job.user}, who alone can change it</p>}
        <a href="#/jobs">all jobs</a>
        {!user && <Command text={`andon jobs show ${job.label}`} />}
      </div>
      {found.error && <Trouble problem={found.error} what="This page is out of date: the job cannot be read now" />}
      {(job.reason ?? job.error) && <p className="why-job">{whyText(job)}</p>}
      {job.waiting_details.length > 0 && <ul className="plain">{job.waiting_details.map((line) => <li key={line}>{unbroken(line)}</li>)}</ul>}
      <div className="job-halves">
        <div>
          <Facts job={job} hidden={hidden} />
          {!hidden && <Acts job={job} user={user} />}
        </div>
        <div>{hidden ? <p className="dim"><SignInLink to="to see the command and its output" /></p> : <Output job={job} user={user} />}</div>
      </div>
    </section>
  );
}

function Facts({ job, hidden }: { job: Job; hidden: boolean }) {
  const rows: [string, React.ReactNode][] = [];
  if (job.position !== null) rows.push(["place in the queue", job.position]);
  if (job.progress !== null) rows.push(["progress", progressText(job.progress, Date.now() / 1000)]);
  if (job.expected_start !== null) rows.push(["expected start", expected(job)]);
  if (job.gpus) rows.push(["requests", `${job.gpus === "1" ? "1 GPU" : `${job.gpus} GPUs`}${job.memory_bytes !== null ? ` with ${inGib(job.memory_bytes)} each` : ""}${job.for_seconds !== null ? `, for ${duration(job.for_seconds)} at most` : ""}`]);
  if (job.where !== null) rows.push(["where", job.where]);
  if (job.devices.length) rows.push(["GPU", <>{job.devices.join(", ")}{job.lease && job.state === "running" && <> in <a href={leaseLink(job.lease)}>lease {job.lease}</a></>}</>]);
  if (job.after.length || job.after_any.length) rows.push(["after", [...job.after, ...job.after_any].map((one, place) => <span key={one}>{place > 0 && ", "}<a href={jobLink(one)}>job {one}</a></span>)]);
  if (job.begin_at !== null) rows.push(["not before", dateOf(job.begin_at)]);
  rows.push(["submitted", dateOf(job.submitted_at)]);
  if (job.started !== null) rows.push(["started", `${dateOf(job.started)}${job.attempts > 1 ? ` (${count(job.attempts, "attempt")})` : ""}`]);
  if (job.ended !== null) rows.push(["ended", `${dateOf(job.ended)}, ${endText(job)}${job.seconds !== null ? `, after ${measured(job.seconds)}` : ""}`]);
  if (job.run) rows.push(["run", <a href={runLink(job.run)}>{job.run}</a>]);
  if (!hidden) rows.push(["command", <code>{job.command || DASH}</code>], ["folder", <code>{job.folder || DASH}</code>]);
  if (job.tags.length) rows.push(["tags", job.tags.join(", ")]);
  if (job.group !== null) rows.push(["group", <a href={`#/runs?group=${encodeURIComponent(job.group)}`}>{job.group}</a>]);
  if (Object.keys(job.params).length) rows.push(["parameters", Object.entries(job.params).map(([name, value]) => `${name}=${value}`).join(", ")]);
  return <dl className="facts">{rows.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}

function Output({ job, user }: { job: Job; user: string }) {
  const going = job.state === "running";
  const { text, cut, problem } = useLog(jobName(job), user, job.attempts, going);
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  useEffect(() => {
    if (box.current && atEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  const scrolled = () => {
    const here = box.current;
    if (here) atEnd.current = here.scrollHeight - here.scrollTop - here.clientHeight < NEAR_END;
  };
  return (
    <>
      <h2>Output</h2>
      {problem && <Trouble problem={problem} what="The output cannot be read" />}
      {job.attempts === 0 && <p className="dim">It has not started.</p>}
      {cut && <p className="dim">Only the end is shown. <Command label="all of it" text={`andon logs ${job.label} -n 0`} /></p>}
      {text ? <pre ref={box} className="job-log" tabIndex={0} role="log" aria-label={`output of job ${job.label}`} onScroll={scrolled}>{overwritten(text)}</pre> : job.attempts > 0 && !problem && <p className="dim">{going ? "Nothing yet." : "It printed nothing."}</p>}
    </>
  );
}
