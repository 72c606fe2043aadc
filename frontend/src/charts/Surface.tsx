/** What lies over a chart and takes mouse, touch and keys: points at an instant, zooms, resets. */
import { useEffect, useRef, useState } from "react";
import { type Pointed, placeAt, useCursor, usePointed } from "./cursor";
import type { Stage } from "./room";

interface Props {
  /** Its name, also for a screen reader. */
  name: string;
  room: Stage;
  /** The instants that have a value: the arrow keys go from one to the next. */
  at: number[];
  /** What is shown of an instant, in words. */
  told: (at: number) => string;
}

const LEAST_PIXELS = 6;
const WHEEL_STEP = 1.3;

export function Surface({ name, room, at, told }: Props) {
  const cursor = useCursor();
  const place = useRef<HTMLDivElement>(null);
  const latest = useRef(room);
  latest.current = room;
  const [chosen, setChosen] = useState<[number, number] | null>(null);
  const touches = useRef(new Map<number, { at: number; share: number }>());
  const from = useRef<number | null>(null);

  const shareAt = (x: number) => {
    const box = (place.current as HTMLDivElement).getBoundingClientRect();
    return Math.min(1, Math.max(0, (x - box.left) / Math.max(1, box.width)));
  };
  const instant = (share: number) => room.since + share * (room.until - room.since);
  const point = (x: number, y: number) => cursor.set({ at: instant(shareAt(x)), chart: name, x, y });

  const down = (event: React.PointerEvent) => {
    if (event.button !== 0) return;
    const share = shareAt(event.clientX);
    place.current?.setPointerCapture(event.pointerId);
    if (event.pointerType === "touch") touches.current.set(event.pointerId, { at: instant(share), share });
    else from.current = share;
    point(event.clientX, event.clientY);
  };
  const move = (event: React.PointerEvent) => {
    const touch = touches.current.get(event.pointerId);
    const share = shareAt(event.clientX);
    if (touch) touch.share = share;
    if (touches.current.size > 1) return; // two fingers zoom
    if (from.current !== null) setChosen([Math.min(from.current, share), Math.max(from.current, share)]);
    point(event.clientX, event.clientY);
  };
  const up = (event: React.PointerEvent) => {
    const span = chosen;
    from.current = null;
    setChosen(null);
    if (touches.current.size === 2) pinch([...touches.current.values()], room);
    if (touches.current.delete(event.pointerId) && touches.current.size) touches.current.clear();
    const wide = place.current?.clientWidth ?? 0;
    if (span && (span[1] - span[0]) * wide >= LEAST_PIXELS) room.select(instant(span[0]), instant(span[1]));
  };
  const cancel = () => {
    touches.current.clear();
    from.current = null;
    setChosen(null);
  };

  useWheel(place, cursor.get, latest);
  const pointed = usePointed((now) => now?.at ?? null);
  return (
    <div
      ref={place} className="surface" role="slider" tabIndex={0} aria-label={`${name}: instant`} aria-orientation="horizontal"
      aria-valuemin={Math.round(room.since)} aria-valuemax={Math.round(room.until)} aria-valuenow={Math.round(pointed ?? room.until)}
      aria-valuetext={pointed === null ? "none" : told(pointed)}
      onPointerDown={down} onPointerMove={move} onPointerUp={up} onPointerCancel={cancel}
      onPointerLeave={(event) => event.pointerType === "mouse" && from.current === null && cursor.set(null)}
      onDoubleClick={() => room.reset()}
      onKeyDown={(event) => walk(event, at, room, name, cursor.get(), cursor.set)}
      onBlur={() => cursor.set(null)}
    >
      {chosen && <span className="chosen" style={{ left: `${chosen[0] * 100}%`, width: `${(chosen[1] - chosen[0]) * 100}%` }} />}
    </div>
  );
}

/** The instants under two fingers stay under them. */
function pinch(fingers: { at: number; share: number }[], room: Stage): void {
  const [left, right] = fingers.sort((a, b) => a.at - b.at) as [{ at: number; share: number }, { at: number; share: number }];
  const apart = right.share - left.share;
  if (apart <= 0.02) return;
  const seconds = (right.at - left.at) / apart;
  const since = left.at - left.share * seconds;
  room.select(since, since + seconds);
}

/** Zooms by the wheel with Ctrl or by two fingers on a touchpad; without it the page scrolls. */
function useWheel(place: React.RefObject<HTMLDivElement | null>, pointed: () => Pointed | null, room: React.RefObject<Stage>): void {
  useEffect(() => {
    const element = place.current;
    const turned = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      room.current?.zoom(event.deltaY > 0 ? WHEEL_STEP : 1 / WHEEL_STEP, pointed()?.at ?? null, true);
    };
    element?.addEventListener("wheel", turned, { passive: false });
    return () => element?.removeEventListener("wheel", turned);
  }, [place, pointed, room]);
}

const STEPS: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };

function walk(
  event: React.KeyboardEvent<HTMLElement>, at: number[], room: Stage, name: string,
  now: Pointed | null, set: (next: Pointed | null) => void,
): void {
  const step = STEPS[event.key];
  if (event.key === "Escape") {
    if (now === null) return; // the next one resets the range
    set(null);
  } else if (event.key === "Enter") room.zoom(0.5, now?.at ?? null);
  else if (step === undefined) return;
  else {
    const shown = at.filter((one) => one >= room.since && one <= room.until);
    const here = now === null ? shown.length : (placeAt(shown, now.at + 0.001, Infinity) ?? 0) + step;
    const next = shown[Math.min(shown.length - 1, Math.max(0, here))];
    if (next === undefined) return;
    const box = event.currentTarget.getBoundingClientRect();
    const x = box.left + ((next - room.since) / (room.until - room.since)) * box.width;
    set({ at: next, chart: name, x, y: box.top + box.height / 2 });
  }
  event.preventDefault();
}
