/** What is known now: the last snapshot, how old it is, and how the connection stands. */
import { useSyncExternalStore } from "react";
import type { Device, Snapshot } from "../api/types";
import { Rings } from "./rings";

export type Link =
  | { state: "connecting" }
  | { state: "live" }
  | { state: "away"; attempt: number; reason: string };

export interface Now {
  snapshot: Snapshot | null;
  link: Link;
  /** Seconds since the last snapshot came, while it is older than it should be; else null. */
  staleSeconds: number | null;
  /** Why there is nothing to show at all. */
  refusal: string | null;
}

const PATIENCE_SECONDS = 5;
const PATIENCE_TICKS = 3.5;
const LATE_SECONDS = 30;

export class LiveStore {
  readonly rings = new Rings();
  private now: Now = { snapshot: null, link: { state: "connecting" }, staleSeconds: null, refusal: null };
  private byUuid = new Map<string, Device>();
  private labels = new Map<string, string>();
  private heardAt = 0;
  private tickSeconds = 1;
  private listeners = new Set<() => void>();

  /** `clock` is the page's own: the server's may differ, and an age must not. */
  constructor(private readonly clock: () => number = () => performance.now() / 1000) {}

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  get = (): Now => this.now;

  device(uuid: string): Device | undefined {
    return this.byUuid.get(uuid);
  }

  /** The number of a device; a partition is counted after its board: "6:1". */
  label(uuid: string): string {
    return this.labels.get(uuid) ?? "?";
  }

  heard(snapshot: Snapshot): void {
    const before = this.now.snapshot;
    const late = before ? before.at - snapshot.at : 0;
    if (late > 0 && late < LATE_SECONDS) return; // further back, the server's clock was set
    if (before && snapshot.at > before.at) this.tickSeconds = Math.min(60, snapshot.at - before.at);
    this.heardAt = this.clock();
    this.byUuid = new Map(snapshot.devices.map((device) => [device.uuid, device]));
    this.labels = new Map(snapshot.devices.map((device) => [device.uuid, device.label]));
    this.rings.add(snapshot);
    this.change({ snapshot, staleSeconds: null, refusal: null });
  }

  refused(refusal: string): void {
    this.change({ refusal });
  }

  linked(link: Link): void {
    this.change({ link });
  }

  /** Called once a second: silence has to be noticed although nothing comes. */
  tick(): void {
    if (!this.now.snapshot) return;
    const age = this.clock() - this.heardAt;
    const bound = Math.max(PATIENCE_SECONDS, PATIENCE_TICKS * this.tickSeconds);
    const staleSeconds = age > bound ? Math.floor(age) : null;
    if (staleSeconds !== this.now.staleSeconds) this.change({ staleSeconds });
  }

  private change(part: Partial<Now>): void {
    this.now = { ...this.now, ...part };
    for (const listener of this.listeners) listener();
  }
}

export const live = new LiveStore();

export function useNow(): Now {
  return useSyncExternalStore(live.subscribe, live.get);
}

/** Part of what is known; the component is drawn again only when this part is another one. */
export function useLive<T>(pick: (now: Now) => T): T {
  return useSyncExternalStore(live.subscribe, () => pick(live.get()));
}

export function useDevice(uuid: string): Device | undefined {
  return useSyncExternalStore(live.subscribe, () => live.device(uuid));
}
