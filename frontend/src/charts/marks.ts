/** What happened as marks on the time axis: alerts, and jobs that started and ended. */
import type { Alert, HistoryNote, JobPage } from "../api/types";
import { hourOf } from "../lib/format";
import { alertLink, deviceLink, jobLink } from "../lib/links";
import { jobName, userNamed } from "../lib/jobs";

/** Something that happened at an instant. */
export interface ChartMark {
  at: number;
  title: string;
  bad: boolean;
  kind?: "alert" | "start" | "end" | "note";
  href?: string;
  /** The devices that it concerns; null for all. */
  devices?: string[] | null;
}

export function alertMarks(alerts: Alert[]): ChartMark[] {
  return alerts.flatMap((one) => {
    if (one.fired === null) return [];
    const about = { kind: "alert" as const, href: alertLink(one.id), devices: [one.subject] };
    const begin = { ...about, at: one.fired, title: `alert: ${one.message}`, bad: one.level === "critical" };
    return one.resolved === null ? [begin] : [begin, { ...about, at: one.resolved, title: `alert over: ${one.message}`, bad: false }];
  });
}

export function jobMarks(page: Pick<JobPage, "jobs" | "scope" | "user">): ChartMark[] {
  return page.jobs.flatMap((one) => {
    const other = userNamed(page, one);
    const about = { href: jobLink(jobName(one), other), devices: one.device_uuids };
    const name = `job ${one.label} ${one.name}`;
    const failed = !["succeeded", "cancelled"].includes(one.state);
    const out: ChartMark[] = [];
    if (one.started !== null) out.push({ ...about, kind: "start", at: one.started, title: `${name} started (${one.user})`, bad: false });
    if (one.started !== null && one.ended !== null) out.push({ ...about, kind: "end", at: one.ended, title: `${name} ended: ${one.state.replaceAll("_", " ")}`, bad: failed });
    return out;
  });
}

const AROUND_SECONDS = 600;

/** A note leads to its range, with a little around a moment. */
export function noteMarks(notes: HistoryNote[]): ChartMark[] {
  return notes.map((one) => {
    const seconds = Math.max(AROUND_SECONDS, one.until - one.since);
    const range = `?seconds=${Math.round(seconds)}&until=${Math.round((one.since + one.until + seconds) / 2)}`;
    const title = one.driver ? one.text : `note of ${one.by || "someone"}: ${one.text}`;
    return { kind: "note" as const, at: one.since, title, bad: false, devices: one.device === null ? null : [one.device], href: one.device === null ? `#/charts${range}` : deviceLink(one.device) + range };
  });
}

/** Those of one device. */
export const marksOn = (marks: ChartMark[], uuid: string): ChartMark[] => marks.filter((one) => one.devices === null || one.devices?.includes(uuid));

interface Cluster {
  /** Where, from 0 to 1. */
  share: number;
  text: string;
  bad: boolean;
  kind: ChartMark["kind"];
  href: string;
}

const MOST_TOLD = 4;

/** One mark where several would lie on each other: it tells them all and leads to the worst. */
export function clustered(marks: ChartMark[], since: number, until: number, slots: number): Cluster[] {
  const found = new Map<number, ChartMark[]>();
  for (const mark of marks) {
    const share = (mark.at - since) / (until - since);
    if (!mark.href || share < 0 || share > 1) continue;
    const slot = Math.floor(share * slots);
    found.set(slot, [...(found.get(slot) ?? []), mark]);
  }
  return [...found].sort(([a], [b]) => a - b).map(([, all]) => {
    const sorted = all.sort((a, b) => a.at - b.at);
    const worst = sorted.find((one) => one.bad) ?? (sorted[0] as ChartMark);
    const told = sorted.slice(0, MOST_TOLD).map((one) => `${hourOf(one.at)} ${one.title}`);
    if (sorted.length > MOST_TOLD) told.push(`and ${sorted.length - MOST_TOLD} more`);
    return { share: (worst.at - since) / (until - since), text: told.join("\n"), bad: worst.bad, kind: worst.kind, href: worst.href as string };
  });
}
