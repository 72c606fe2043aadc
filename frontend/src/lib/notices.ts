/** Notifications of the browser, whether this tab is in front or not: what is new since the page was opened. */
import type { Alert, Job, Reservation } from "../api/types";
import { duration } from "./format";
import { jobKey, jobName } from "./jobs";
import { alertLink, jobLink } from "./links";

interface NoticeText {
  /** The same thing is shown once, also by several tabs. */
  tag: string;
  title: string;
  body: string;
  href: string;
}

/** What was known at a time; undefined where there was no answer yet. */
export interface Seen {
  jobs: Job[] | undefined;
  alerts: Alert[] | undefined;
  reservations: Reservation[] | undefined;
  at: number;
}

const AHEAD_SECONDS = 15 * 60;
const WAITS = new Set(["waiting", "later", "held"]);
const LONGEST = 300;
const levels: Record<string, true> = { warning: true, critical: true };

/** The news between two states of what concerns this person; of everybody where no name is known. */
export function noticesBetween(before: Seen, now: Seen, me: string): NoticeText[] {
  const own = (user: string | null | undefined): boolean => me === "" || user === me;
  const states = new Map(before.jobs?.map((job) => [jobKey(job), job.state]));
  const known = new Set(before.alerts?.filter(isFiring).map((alert) => alert.id));
  const jobs = (now.jobs ?? []).filter((job) => own(job.user)).flatMap((job) => jobNotice(job, states.get(jobKey(job))));
  const firing = before.alerts ? (now.alerts ?? []) : [];
  const alerts = firing.filter((alert) => isFiring(alert) && !known.has(alert.id) && concerns(alert, me));
  const coming = (now.reservations ?? []).filter(({ user, begins }) => own(user) && isSoon(begins, now.at) && !isSoon(begins, before.at));
  return [
    ...jobs,
    ...alerts.map((alert) => ({ tag: `alert ${alert.id}`, title: alert.message, body: alert.advice, href: alertLink(alert.id) })),
    ...coming.map(({ id, name, begins }) => ({ tag: `reservation ${id} ${begins}`, title: `Your reservation ${id} begins in ${duration(begins - now.at)}`, body: name, href: "#/leases" })),
  ].map((one) => ({ ...one, title: one.title.slice(0, LONGEST), body: one.body.slice(0, LONGEST) }));
}

function jobNotice(job: Job, before: string | undefined): NoticeText[] {
  if (before === undefined || before === job.state) return [];
  const name = `Job ${jobName(job)} (${job.name})`;
  const made = (title: string): NoticeText[] => [{ tag: `job ${jobKey(job)} ${job.attempt} ${job.state}`, title, body: job.reason ?? "", href: jobLink(jobName(job), job.user) }];
  if (job.state === "running") return WAITS.has(before) ? made(`${name} has its turn${job.devices.length ? `: GPU ${job.devices.join(", ")}` : ""}`) : [];
  return WAITS.has(job.state) || job.state === "unknown" ? [] : made(`${name} ${job.state.replace("_", " ")}`);
}

const isFiring = (alert: Alert): boolean => alert.state === "firing" && levels[alert.level] === true && !alert.acknowledged && alert.silenced_until === null;
const isSoon = (begins: number, at: number): boolean => begins > at && begins - at <= AHEAD_SECONDS;

function concerns(alert: Alert, me: string): boolean {
  return me === "" || alert.affected.some((one) => one.user === me) || alert.evidence["reserved_by"] === me;
}
