/** Where an axis has its ticks, and what stands at them. */
import { momentOf } from "../lib/format";

const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const MONTH = new Intl.DateTimeFormat(undefined, { month: "short", year: "numeric" });
const DAY_SECONDS = 86_400;

/** Round in seconds, minutes, hours and days. */
export const STEPS = [
  0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200, DAY_SECONDS, 2 * DAY_SECONDS,
  7 * DAY_SECONDS, 28 * DAY_SECONDS, 91 * DAY_SECONDS,
];

/** A tick label as precise as the step requires; midnight shows the date. */
export function stamp(at: number, step: number): string {
  const moment = new Date(at * 1000);
  if (step >= 28 * DAY_SECONDS) return MONTH.format(moment);
  const midnight = momentOf(at).includes(" 00:00");
  if (step >= DAY_SECONDS || (midnight && step >= 3_600)) return DAY.format(moment);
  return momentOf(at).slice(11, step < 60 ? 19 : 16);
}

/** Round times of this place within a range, at most so many. */
export function timeTicks(since: number, until: number, most: number): { at: number; text: string }[] {
  const step = STEPS.find((one) => (until - since) / one <= most) ?? (STEPS.at(-1) as number);
  const ahead = -new Date(since * 1000).getTimezoneOffset() * 60;
  const first = Math.ceil((since + ahead) / step) * step - ahead;
  const count = Math.max(0, Math.floor((until - first) / step) + 1);
  return Array.from({ length: count }, (_, place) => ({ at: first + place * step, text: stamp(first + place * step, step) }));
}

/** The next round number: a scale that ends there has a label that says it whole. */
export function roundTop(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ([1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8].find((one) => one * power >= value * 0.9999) ?? 10);
}

const EDGE_PIXELS = 2;

/** A scale from 0 to `top` with a little more at both ends, so that a line there is not cut. */
export function padded(top: number, pixels: number): [number, number] {
  const edge = (top * EDGE_PIXELS) / Math.max(1, pixels - 2 * EDGE_PIXELS);
  return [-edge, top + edge];
}

const LEAST_WIDTH = 280;

/** How many charts stand side by side: as many as fit, in rows of about the same length; of a few no more than four, which a large screen shows larger. */
export function columnsOf(width: number, count: number): number {
  const most = Math.max(1, Math.min(Math.floor(width / LEAST_WIDTH), Math.max(4, Math.ceil(count / 3))));
  return Math.max(1, Math.ceil(count / Math.ceil(count / most)));
}
