/** The instant that is pointed at: the same in every chart of a page. */
import { createContext, useContext, useSyncExternalStore } from "react";

export interface Pointed {
  at: number;
  /** The chart in which it is, and where on the screen. */
  chart: string;
  x: number;
  y: number;
}

export class Cursor {
  private now: Pointed | null = null;
  private listeners = new Set<() => void>();

  get = (): Pointed | null => this.now;

  set = (next: Pointed | null): void => {
    if (next === this.now) return;
    this.now = next;
    for (const listener of this.listeners) listener();
  };

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };
}

export const CursorContext = createContext(new Cursor());

export function useCursor(): Cursor {
  return useContext(CursorContext);
}

/** What follows from the cursor; the component is rendered again only when this changes. */
export function usePointed<T extends string | number | null>(pick: (now: Pointed | null) => T): T {
  const cursor = useCursor();
  return useSyncExternalStore(cursor.subscribe, () => pick(cursor.get()));
}

/** The last element that is not after an instant; null if that is too long ago. */
export function placeAt(at: readonly number[], instant: number, longest: number): number | null {
  let [low, high] = [0, at.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((at[middle] as number) <= instant) low = middle + 1;
    else high = middle;
  }
  const place = low - 1;
  return place < 0 || instant - (at[place] as number) > longest ? null : place;
}
