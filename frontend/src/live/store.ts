/** The current state: the last snapshot, its age, and the connection. */
import { useSyncExternalStore } from "react";
import type { Device, Snapshot } from "../api/types";
import { NODE } from "../lib/node";
import { poll } from "./asked";
import { Hours } from "./hours";
import { Rings } from "./rings";

export type Link =
  | { state: "connecting" }
  | { state: "live" }
  | { state: "away"; attempt: number; reason: string };

export interface Now {
  snapshot: Snapshot | null;
  link: Link;
  /** Seconds since the last snapshot, if it is overdue; else null. */
  staleSeconds: number | null;
  /** Why there is nothing to show. */
  refusal: string | null;
}

const STALE_SECONDS = 5;
const STALE_TICKS = 3.5;
const LATE_SECONDS = 30;

export class LiveStore {
  readonly rings = new Rings();
  readonly hours = new Hours();
  /** How many there were: the first is asked for, later ones are live. */
  readings = 0;
  private now: Now = { snapshot: null, link: { state: "connecting" }, staleSeconds: null, refusal: null };
  private byUuid = new Map<string, Device>();
  private labels = new Map<string, string>();
  private receivedAt = 0;
  private tickSeconds = 1;
  private listeners = new Set<() => void>();
  private end: (() => void) | undefined;

  /** `clock` is the page's own: the server's clock may differ from it. `feed` fills it while somebody listens, and returns what ends that. */
  constructor(private readonly clock: () => number = () => performance.now() / 1000, private readonly feed?: (store: LiveStore) => () => void) {}

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    if (this.listeners.size === 1) this.end = this.feed?.(this);
    return () => {
      this.listeners.delete(listener);
      if (!this.listeners.size) this.end?.();
    };
  };

  get = (): Now => this.now;

  device(uuid: string): Device | undefined {
    return this.byUuid.get(uuid);
  }

  /** The UUID of a device by its UUID or its label, as an address names it. */
  named(name: string): string {
    return this.device(name) ? name : ([...this.labels].find(([, label]) => label === name)?.[0] ?? name);
  }

  /** The label of a device: "6", or "6:1" for a partition. */
  label(uuid: string): string {
    return this.labels.get(uuid) ?? "?";
  }

  received(snapshot: Snapshot): void {
    const before = this.now.snapshot;
    const late = before ? before.at - snapshot.at : 0;
    if (late > 0 && late < LATE_SECONDS) return; // further back means that the server's clock was set
    if (before && snapshot.at > before.at) this.tickSeconds = Math.min(60, snapshot.at - before.at);
    this.receivedAt = this.clock();
    this.readings += 1;
    this.byUuid = new Map(snapshot.devices.map((device) => [device.uuid, device]));
    this.labels = new Map(snapshot.devices.map((device) => [device.uuid, device.label]));
    this.rings.add(snapshot);
    if (!before || snapshot.at !== before.at) this.hours.add(snapshot);
    this.change({ snapshot, staleSeconds: null, refusal: null });
  }

  refused(refusal: string): void {
    this.change({ refusal });
  }

  linked(link: Link): void {
    this.change({ link });
  }

  /** Called once a second, to notice that no data arrives. */
  tick(): void {
    if (!this.now.snapshot) return;
    const age = this.clock() - this.receivedAt;
    const bound = Math.max(STALE_SECONDS, STALE_TICKS * this.tickSeconds);
    const staleSeconds = age > bound ? Math.floor(age) : null;
    if (staleSeconds !== this.now.staleSeconds) this.change({ staleSeconds });
  }

  private change(part: Partial<Now>): void {
    this.now = { ...this.now, ...part };
    for (const listener of this.listeners) listener();
  }
}

/** The page's node, which main.tsx follows for as long as the page is open. */
export const live = new LiveStore();
const others = new Map<string | null, LiveStore>();

/** The state of a node; another one than the page's is asked for while it is shown. */
export function liveOf(node: string | null): LiveStore {
  if (node === NODE) return live;
  const store = others.get(node) ?? new LiveStore(undefined, (own) => poll(node, own));
  others.set(node, store);
  return store;
}

/** A part of the state; the component is rendered again only when this part changes. */
export function useLive<T>(pick: (now: Now, store: LiveStore) => T, node: string | null = NODE): T {
  const store = liveOf(node);
  return useSyncExternalStore(store.subscribe, () => pick(store.get(), store));
}

/** Why it is not known what the devices do: their node does not report to its hub. */
export const useSilence = (): string | null => useLive((now) => now.snapshot?.devices.find((one) => one.state === "unknown")?.reason ?? null);

export const whole = (now: Now): Now => now;
