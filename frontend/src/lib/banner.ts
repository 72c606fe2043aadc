/** The line under a device's name: what is wrong, with the numbers that the page itself shows. */
import type { Alert, Device } from "../api/types";
import { duration, known } from "./format";
import { type Lamp, shortened } from "./lamps";

/** An alert's sentence has the value of when it was judged, the page the one of this second: where
 * the alert is about a temperature that the page shows, the page's is used for both. */
export function banner(lamp: Lamp, alert: Alert | undefined, device: Device, at: number): string {
  if (lamp.by?.rule === "idle") return `${lamp.word} for ${duration(at - lamp.by.since)}`; // who holds it follows
  const live = alert && (lamp.colour === "red" || lamp.colour === "amber") ? ofHeat(lamp, alert, device, at) : null;
  const what = live ?? [lamp.word, shortened(lamp.reason)].filter(Boolean).join(" · ");
  return [what, lamp.forWhom && `affects ${lamp.forWhom}`].filter(Boolean).join(" · ");
}

function ofHeat(lamp: Lamp, alert: Alert, device: Device, at: number): string | null {
  const celsius = device.state === "ok" ? device.sample?.temperature_celsius : null;
  if (alert.unit !== "celsius" || !known(celsius)) return null;
  const slowdown = alert.limit ?? device.limits.slowdown_celsius;
  const below = !known(slowdown) || celsius < slowdown; // the limit that is reached is named
  const limits = [
    below && known(alert.threshold) && `alert above ${alert.threshold.toFixed(0)}\u00a0°C`,
    known(slowdown) && `slows down at ${slowdown.toFixed(0)}\u00a0°C`,
  ].filter(Boolean).join(", ");
  return `${lamp.word} for ${duration(at - alert.since)} · now ${celsius.toFixed(0)}\u00a0°C${limits && ` (${limits})`}`;
}
