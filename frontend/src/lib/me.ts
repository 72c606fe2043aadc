/** The name of the person at this browser: under it they take GPUs and acknowledge alerts. */
import { useSyncExternalStore } from "react";

const NAME = "andon.name";
const listeners = new Set<() => void>();

function name(): string {
  return localStorage.getItem(NAME) ?? "";
}

export function setMe(value: string): void {
  localStorage.setItem(NAME, value.trim());
  for (const listener of listeners) listener();
}

function subscribe(changed: () => void): () => void {
  listeners.add(changed);
  return () => listeners.delete(changed);
}

/** Empty if not known yet. */
export function useMe(): string {
  return useSyncExternalStore(subscribe, name);
}
