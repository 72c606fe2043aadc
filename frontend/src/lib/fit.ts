/** The size of the tiles: the most readable one at which all of them fit without scrolling. */
import { useLayoutEffect, useState, type RefObject } from "react";

export type Density = "grand" | "roomy" | "medium" | "compact";

export interface Fit {
  density: Density;
  columns: number;
  /** Of one row, in pixels. */
  height: number;
  /** No room for the status beside the number. */
  narrow: boolean;
}

/** The minimum width and height of a tile, and the maximum useful height. */
interface Size {
  density: Density;
  width: number;
  height: number;
  maxHeight: number;
}

export const GAP = 8;
const SIZES: Size[] = [
  { density: "grand", width: 400, height: 250, maxHeight: 560 },
  { density: "roomy", width: 270, height: 184, maxHeight: 360 },
  { density: "medium", width: 188, height: 122, maxHeight: 168 },
  { density: "compact", width: 108, height: 56, maxHeight: 112 },
];
const BEST_RATIO = 1.9; // width to height
const MAX_RATIO = 0.9; // height to width
const NARROW = 138;
const MAX_GRAND = 8;
const LEAST_WIDTH = 270; // of one of a few

export function fit(count: number, width: number, height: number): Fit {
  for (const size of SIZES) {
    if (size.density === "grand" && count > MAX_GRAND) continue;
    const found = arrange(size, count, width, height);
    if (found) return found;
  }
  const last = SIZES[SIZES.length - 1] as Size;
  const columns = Math.max(1, Math.floor((width + GAP) / (last.width + GAP)));
  return { density: last.density, columns, height: last.height + 10, narrow: width / columns < NARROW };
}

function arrange(size: Size, count: number, width: number, height: number): Fit | null {
  const widest = Math.max(1, Math.floor((width + GAP) / (size.width + GAP)));
  let best: (Fit & { cost: number }) | null = null;
  for (let columns = 1; columns <= Math.min(widest, Math.max(1, count)); columns += 1) {
    const rows = Math.ceil(count / columns);
    const room = (height + GAP) / rows - GAP;
    if (room < size.height) continue;
    const wide = (width + GAP) / columns - GAP;
    const tall = Math.max(size.height, Math.min(size.maxHeight, room, MAX_RATIO * wide));
    const empty = (columns * rows - count) / count;
    const cost = 2 * empty + 0.6 * Math.abs(Math.log(wide / tall / BEST_RATIO));
    if (!best || cost < best.cost) {
      best = { density: size.density, columns, height: Math.floor(tall), narrow: wide < NARROW, cost };
    }
  }
  return best;
}

/** Tiles of at most this height, beside each other where they fit. */
function limited(count: number, width: number, height: number): Fit {
  const columns = Math.max(1, Math.min(count, Math.floor((width + GAP) / (LEAST_WIDTH + GAP))));
  return { ...fit(1, (width + GAP) / columns - GAP, height), columns, height };
}

const MARGIN = 14; // above the footer

/** Measures the space between an element's top and the footer, again when the window changes. */
export function useFit(place: RefObject<HTMLElement | null>, count: number, most?: number): Fit | null {
  const [found, setFound] = useState<Fit | null>(null);
  useLayoutEffect(() => {
    const measure = () => {
      const element = place.current;
      if (!element) return;
      const top = element.getBoundingClientRect().top + window.scrollY;
      const below = document.querySelector("footer")?.offsetHeight ?? 0;
      const room = window.innerHeight - top - below - MARGIN;
      const next = most === undefined ? fit(count, element.clientWidth, room) : limited(count, element.clientWidth, most);
      setFound((before) =>
        before && JSON.stringify(before) === JSON.stringify(next)
          ? before
          : next,
      );
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(document.documentElement);
    if (place.current) observer.observe(place.current);
    window.addEventListener("resize", measure);
    return () => {
      observer.disconnect();
      window.removeEventListener("resize", measure);
    };
  }, [place, count, most]);
  return found;
}
