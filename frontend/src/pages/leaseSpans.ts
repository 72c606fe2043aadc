/** Leases as bars of the day ahead, and what is said of GPUs without one. */
import type { Job, Lease, Leases } from "../api/types";
import { count, hourOf } from "../lib/format";
import type { Span } from "../lib/timeline";
import { expectedEnd, QUEUE } from "./jobs/timeline";

/** A bar for each GPU of a lease. Without an end of its own it has that of its job, if that is expected. */
export function daySpans(list: Pick<Leases, "leases" | "at">, jobs: Job[]): Span[] {
  const held = list.leases.flatMap((lease) => lease.devices.map((device) => spanOf(lease, device.uuid, jobs.find((job) => job.lease !== null && job.lease === lease.id), list.at)));
  const waiting = jobs.filter((job) => job.expected_start !== null && job.expected_start > list.at && job.state === "waiting").map((job): Span => ({
    id: `${QUEUE} ${job.user}/${job.label}`, row: QUEUE, from: job.expected_start as number, to: (job.expected_start as number) + (job.for_seconds ?? 1800), sure: list.at, tone: "waiting", who: job.user,
    label: `◌ ${job.user}`, says: `◌ ${job.user}: job ${job.label}, ${count(Number(job.gpus) || 1, "GPU")}, expected to start about ${hourOf(job.expected_start as number, list.at)}`,
  }));
  return [...held, ...waiting];
}

function spanOf(lease: Lease, uuid: string, job: Job | undefined, now: number): Span {
  const end = lease.until === null && job ? expectedEnd(job, now) : null;
  const to = lease.until ?? end?.at ?? null;
  const until = to === null ? (lease.command ? "until its command ends" : "no end was said") : lease.until !== null ? `until ${hourOf(to, now)}` : `until about ${hourOf(to, now)}`;
  return {
    id: `${lease.id ?? "unreadable"} ${uuid}`, row: uuid, from: lease.since ?? now, to, sure: lease.until !== null ? lease.until : now, tone: lease.state, who: lease.user,
    label: `${lease.user} · ${until}`, says: `${lease.user} · ${until}${end === null ? "" : ` (${end.from})`}; since ${lease.since === null ? "an unknown time" : hourOf(lease.since, now)}${lease.command ? `, ${lease.command}` : ""}`,
  };
}

/** Everyone with a bar in the day or the week, who has the same colour in both. */
export const peopleOf = (list: Pick<Leases, "reservations">, spans: Span[]): string[] => [...spans, ...list.reservations.map((one) => ({ who: one.user }))].map(({ who }) => who);

export function notesOf(list: Leases): Map<string, string> {
  const notes = list.devices.flatMap((one): [string, string][] => (one.kind === "free" ? [[one.uuid, "free"]] : one.code === "unleased_process" && one.by ? [[one.uuid, `in use by ${one.by}, without a lease: until when is not known`]] : one.lease === null && one.reason ? [[one.uuid, one.reason]] : []));
  for (const one of list.cordons) notes.push([one.uuid, `out of service${one.reason ? `: ${one.reason}` : ""}`]);
  return new Map(notes);
}

/** "Next to be free: GPU 3 at about 13:10": what people come here for. */
export function firstFree(list: Pick<Leases, "devices" | "at">, spans: Span[]): string {
  const ends = list.devices.flatMap((one) => {
    const own = spans.filter((span) => span.row === one.uuid);
    return own.length && own.every((span) => span.to !== null) ? [{ label: one.label, at: Math.max(...own.map((span) => span.to as number)) }] : [];
  }).sort((a, b) => a.at - b.at);
  if (ends[0]) return `Next to be free: GPU ${ends[0].label} at about ${hourOf(ends[0].at, list.at)}`;
  return spans.length ? "No lease has an end that is known" : "The day ahead";
}
