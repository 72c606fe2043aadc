/** The name of the person at this browser: under it they take GPUs and acknowledge alerts. */
import { useSyncExternalStore } from "react";
import { useSession } from "../api/server";

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

/** As signed in; a token proves no person, so then the name that was typed. Empty if not known. */
export function useMe(): string {
  const session = useSession();
  const typed = useSyncExternalStore(subscribe, name);
  return session && !session.by_token && session.user ? session.user : typed;
}
