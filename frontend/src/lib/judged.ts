/** Every device's lamp and the headline, from the server's board and the last snapshot. */
import { useRef, useSyncExternalStore } from "react";
import { useAlerts } from "../api/ports";
import type { Board, Holder, Verdict } from "../api/types";
import { live, type Now } from "../live/store";
import { duration, unbroken } from "./format";
import { type Colour, headline, type Lamp, lampOf, serverLamps, UNKNOWN } from "./lamps";

export interface Judged {
  colour: Colour;
  headline: string;
  /** The alert that the headline is about. */
  alert: string | null;
  lamps: Map<string, Lamp>;
  /** Who holds a device, by its uuid. */
  holders: Record<string, Holder[]>;
  /** Whether a device is available, by its uuid; none of an old snapshot. */
  verdicts: Map<string, Verdict>;
}

export const LOADING = "Loading…";

/** The same object as long as it says the same: most readings change no lamp, and then nothing but the values is drawn again. */
export function useJudged(): Judged {
  const board = useAlerts((alerts) => alerts.lamps()).data;
  const last = useRef<{ now: Now; board: Board | undefined; key: string; found: Judged } | null>(null);
  return useSyncExternalStore(live.subscribe, () => {
    const now = live.get();
    const before = last.current;
    if (before?.now === now && before.board === board) return before.found;
    const made = judge(now, board);
    const key = JSON.stringify([made, [...made.lamps], [...made.verdicts]]);
    const found = before?.key === key ? before.found : made;
    last.current = { now, board, key, found };
    return found;
  });
}

/** Stale data is grey: it may no longer be true. */
function judge({ snapshot, staleSeconds, link, refusal }: Now, board: Board | undefined): Judged {
  const verdicts = new Map<string, Verdict>();
  const none = { alert: null, holders: board?.holders ?? {}, verdicts };
  if (!snapshot) return { ...none, colour: "grey", headline: refusal ?? LOADING, lamps: new Map() };
  if (staleSeconds !== null) {
    const silent = link.state === "live" ? "the server has stopped sampling" : "the server is not responding";
    const lamp: Lamp = { ...UNKNOWN, word: "stale", reason: `no data for ${duration(staleSeconds)}` };
    return {
      ...none,
      colour: "grey",
      headline: `No data for ${duration(staleSeconds)}: ${silent}`,
      lamps: new Map(snapshot.devices.map((device) => [device.uuid, lamp])),
    };
  }
  const server = serverLamps(board);
  for (const one of board?.devices ?? []) if (one.verdict) verdicts.set(one.uuid, one.verdict);
  const lamps = new Map(snapshot.devices.map((d) => [d.uuid, lampOf(d, server, snapshot.at)]));
  if (!board) {
    const plain = headline(snapshot, lamps);
    return { ...none, colour: plain.colour, headline: plain.text, lamps };
  }
  return { ...none, colour: board.lamp as Colour, headline: unbroken(board.headline), alert: board.headline_alert, lamps };
}

export function acknowledgedText(by: string): string {
  return by ? `acknowledged by ${by}` : "acknowledged";
}
