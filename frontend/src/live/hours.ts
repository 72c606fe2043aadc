/** Utilisation of every device over the last hours, as means of two minutes: the line of its tile. */
import type { Recent, Snapshot } from "../api/types";

export const STEP_SECONDS = 120;
export const STEPS = 90;
export const HOURS_SECONDS = STEP_SECONDS * STEPS;
const ENOUGH_STEPS = 10; // of less the last minutes are shown

interface Mean {
  sum: number;
  seconds: number;
}

export class Hours {
  private devices = new Map<string, Map<number, Mean>>();
  private oldest = Infinity;
  private newest = 0;
  private last = 0;

  /** Whether they are worth showing: a line that fills a tenth of its room says less than the last minutes. */
  get enough(): boolean {
    return this.newest - this.oldest >= ENOUGH_STEPS;
  }

  /** Adds what the server has recorded. */
  seed(recent: Recent): void {
    for (const [uuid, column] of Object.entries(recent.devices)) {
      recent.at.forEach((at, place) => this.put(uuid, at, column[place], (recent.at[place + 1] ?? at) - at));
    }
  }

  add(snapshot: Snapshot): void {
    const seconds = this.last && snapshot.at - this.last;
    this.last = snapshot.at;
    for (const one of snapshot.devices) this.put(one.uuid, snapshot.at, one.state === "ok" ? one.sample?.utilization_percent : null, seconds);
    if (this.devices.size <= snapshot.devices.length) return;
    const here = new Set(snapshot.devices.map((one) => one.uuid));
    for (const uuid of this.devices.keys()) if (!here.has(uuid)) this.devices.delete(uuid);
  }

  /** The means, newest last; null where there is no reading. What is not known of a step, as of one that has just begun, is
   *  as in the step before: the readings of a moment are no mean of two minutes. */
  of(uuid: string, until: number): (number | null)[] {
    const steps = this.devices.get(uuid);
    const first = Math.floor(until / STEP_SECONDS) - STEPS + 1;
    let before: number | null = null;
    return Array.from({ length: STEPS }, (_, place) => {
      const mean = steps?.get(first + place);
      const rest: number = before === null || !mean ? 0 : Math.max(0, STEP_SECONDS - mean.seconds);
      return (before = mean ? (mean.sum + rest * (before ?? 0)) / (mean.seconds + rest) : null);
    });
  }

  private put(uuid: string, at: number, value: number | null | undefined, lasted: number): void {
    if (value === null || value === undefined) return;
    const seconds = Math.min(STEP_SECONDS, Math.max(1, lasted));
    const step = Math.floor(at / STEP_SECONDS);
    let steps = this.devices.get(uuid);
    if (!steps) this.devices.set(uuid, (steps = new Map()));
    const mean = steps.get(step);
    if (mean) {
      mean.sum += value * seconds;
      mean.seconds += seconds;
      return;
    }
    steps.set(step, { sum: value * seconds, seconds });
    this.oldest = Math.min(this.oldest, step);
    this.newest = Math.max(this.newest, step);
    for (const old of steps.keys()) if (old <= step - STEPS) steps.delete(old);
  }
}
