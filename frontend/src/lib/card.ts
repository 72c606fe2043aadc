/** When a tile's card is shown, and where: after a moment, and never over a lit tile. */
import { useCallback, useEffect, useRef, useState } from "react";

const DELAY_MS = 300;
const MARGIN = 8;

/** Where the mouse was at the last two events. A browser also sends one when the page moves under a
 * mouse that rests, for example because another page is shown. */
let here = "";
let before = "";

function isResting(): boolean {
  return here === before;
}

globalThis.window?.addEventListener("pointermove", (event) => {
  before = here;
  here = `${event.screenX},${event.screenY}`;
}, true);

export interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

interface Shown {
  uuid: string;
  anchor: DOMRect;
}

interface Card {
  shown: Shown | null;
  /** For a mouse that moves over the tiles; one that only rests there shows nothing. */
  point: (event: React.PointerEvent) => void;
  show: (target: EventTarget) => void;
  hide: () => void;
}

export function useCard(): Card {
  const [shown, setShown] = useState<Shown | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const over = useRef<HTMLElement | null>(null);
  const show = useCallback((target: EventTarget) => {
    const tile = tileOf(target);
    const uuid = tile?.dataset["uuid"];
    setShown(tile && uuid ? { uuid, anchor: tile.getBoundingClientRect() } : null);
  }, []);
  const hide = useCallback(() => {
    clearTimeout(timer.current);
    over.current = null;
    setShown(null);
  }, []);
  const point = useCallback((event: React.PointerEvent) => {
    if (event.pointerType !== "mouse" || isResting()) return;
    const tile = tileOf(event.target);
    if (tile === over.current) return;
    hide();
    over.current = tile;
    if (tile) timer.current = setTimeout(() => show(tile), DELAY_MS);
  }, [hide, show]);
  useEffect(() => hide, [hide]);
  return { shown, point, show, hide };
}

function tileOf(target: EventTarget): HTMLElement | null {
  return (target as HTMLElement).closest<HTMLElement>("a[data-uuid]");
}

export function overlap(a: Box, b: Box): boolean {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

/** A place for a card beside its tile that covers none of `kept`; null if there is none. */
export function placed(
  card: { width: number; height: number }, tile: Box, kept: Box[], page: { width: number; height: number },
): { left: number; top: number } | null {
  const rows = [tile.top, tile.bottom - card.height, tile.bottom + MARGIN, tile.top - card.height - MARGIN, MARGIN, page.height - card.height - MARGIN];
  const columns = [tile.right + MARGIN, tile.left - card.width - MARGIN, tile.left, tile.right - card.width, MARGIN, page.width - card.width - MARGIN];
  for (const top of rows.map((one) => Math.max(MARGIN, Math.min(one, page.height - card.height - MARGIN)))) {
    for (const left of columns) {
      const box = { left, top, right: left + card.width, bottom: top + card.height };
      const inside = left >= MARGIN && box.right <= page.width - MARGIN;
      if (inside && ![tile, ...kept].some((one) => overlap(box, one))) return { left, top };
    }
  }
  return null;
}
