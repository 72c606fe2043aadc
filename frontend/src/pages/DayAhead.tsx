/** The day ahead of each GPU: who holds it until when, and what is expected to end or start. */
import type { Job, Leases } from "../api/types";
import { useJobs } from "../api/ports";
import { unbroken } from "../lib/format";
import { deviceLink, go, keep, leaseLink, useRoute, withQuery } from "../lib/router";
import { live } from "../live/store";
import { Timeline } from "../parts/Timeline";
import { QUEUE } from "./jobs/timeline";
import { daySpans, firstFree, notesOf, peopleOf } from "./leaseSpans";

const AHEAD: [string, number][] = [["6 h", 6 * 3600], ["1 d", 86_400]];
const BEFORE = 0.12; // of the time ahead
const NO_JOBS: Job[] = [];

export function DayAhead({ list, chosen }: { list: Leases; chosen: string | null }) {
  const { query } = useRoute();
  const jobs = useJobs((jobs) => jobs.list("active", "jobs")).data?.jobs ?? NO_JOBS;
  const seconds = AHEAD.find(([name]) => name === query.get("ahead"))?.[1] ?? 86_400;
  const spans = daySpans(list, jobs);
  const notes = notesOf(list);
  const rows = list.devices.map((one) => ({ id: one.uuid, title: `GPU ${one.label}`, href: live.device(one.uuid) ? deviceLink(one.uuid) : undefined, note: notes.get(one.uuid) }));
  const queued = spans.some((span) => span.row === QUEUE) ? [{ id: QUEUE, title: "waiting" }] : [];
  return (
    <section className="plan" aria-label="the day ahead">
      <div className="ranges">
        <h2>{firstFree(list, spans)}</h2>
        <span className="buttons" role="group" aria-label="time ahead">
          {AHEAD.map(([name, value]) => <button key={name} type="button" aria-pressed={value === seconds} onClick={() => keep(withQuery(query, { ahead: name }))}>{unbroken(name)}</button>)}
        </span>
      </div>
      <Timeline caption="leases by GPU" people={peopleOf(list, spans)} rows={[...rows, ...queued]} spans={spans} since={list.at - BEFORE * seconds} until={list.at + seconds} now={list.at} chosen={chosen} onChoose={(id) => id !== QUEUE && go(leaseLink(id))} />
    </section>
  );
}
