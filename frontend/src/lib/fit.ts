/** The size of the tiles: the most readable one at which all of them fit without scrolling. */
import { useLayoutEffect, useState, type RefObject } from "react";

/** "hero": large numbers, with the charts below. */
export type Density = "hero" | "grand" | "roomy" | "medium" | "compact";

interface Fit {
  density: Density;
  columns: number;
  /** Of one row, in pixels. */
  height: number;
  /** No room for the status beside the number. */
  narrow: boolean;
  /** Between two tiles, in pixels. */
  gap: number;
}

/** The minimum width and height of a tile, and the maximum useful height. */
interface Size {
  density: Density;
  width: number;
  height: number;
  maxHeight: number;
  gap: number;
}

const SIZES: Size[] = [
  { density: "grand", width: 400, height: 250, maxHeight: 640, gap: 12 },
  { density: "roomy", width: 270, height: 216, maxHeight: 400, gap: 12 },
  { density: "medium", width: 188, height: 122, maxHeight: 168, gap: 12 },
  { density: "compact", width: 108, height: 56, maxHeight: 112, gap: 8 },
];
const BEST_RATIO = 1.9; // width to height
const MAX_RATIO = 0.9; // height to width
const NARROW = 138;
const MAX_GRAND = 8;
const HERO: Fit = { density: "hero", columns: 1, height: 0, narrow: false, gap: 12 };
const HERO_WIDTH = 560;

/** `unit` is how many times as large as usual the type is. */
export function fit(count: number, width: number, height: number, unit = 1): Fit {
  const found = fitted(count, width / unit, height / unit);
  return { ...found, height: Math.floor(found.height * unit), gap: found.gap * unit };
}

function fitted(count: number, width: number, height: number): Fit {
  for (const size of SIZES) {
    if (size.density === "grand" && count > MAX_GRAND) continue;
    const found = arrange(size, count, width, height);
    if (found) return found;
  }
  const last = SIZES[SIZES.length - 1] as Size;
  const columns = Math.max(1, Math.floor((width + last.gap) / (last.width + last.gap)));
  return { density: last.density, columns, height: last.height + 10, narrow: width / columns < NARROW, gap: last.gap };
}

function arrange(size: Size, count: number, width: number, height: number): Fit | null {
  const { gap } = size;
  const widest = Math.max(1, Math.floor((width + gap) / (size.width + gap)));
  let best: (Fit & { cost: number }) | null = null;
  for (let columns = 1; columns <= Math.min(widest, Math.max(1, count)); columns += 1) {
    const rows = Math.ceil(count / columns);
    const room = (height + gap) / rows - gap;
    if (room < size.height) continue;
    const wide = (width + gap) / columns - gap;
    const tall = Math.max(size.height, Math.min(size.maxHeight, room, MAX_RATIO * wide));
    const empty = (columns * rows - count) / count;
    const cost = 2 * empty + 0.6 * Math.abs(Math.log(wide / tall / BEST_RATIO));
    if (!best || cost < best.cost) {
      best = { density: size.density, columns, height: Math.floor(tall), narrow: wide < NARROW, gap, cost };
    }
  }
  return best;
}

const MARGIN = 14; // above the footer

/** Measures the space between an element's top and the footer, again when the window changes. */
export function useFit(place: RefObject<HTMLElement | null>, count: number, few = false): Fit | null {
  const [found, setFound] = useState<Fit | null>(null);
  useLayoutEffect(() => {
    const measure = () => {
      const element = place.current;
      if (!element) return;
      const top = element.getBoundingClientRect().top + window.scrollY;
      const below = document.querySelector("footer")?.offsetHeight ?? 0;
      const room = window.innerHeight - top - below - MARGIN;
      const unit = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
      const wide = element.clientWidth;
      const next = few ? { ...HERO, columns: wide > 2 * HERO_WIDTH * unit ? count : 1 } : fit(count, wide, room, unit);
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
  }, [place, count, few]);
  return found;
}
