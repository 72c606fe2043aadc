/** Every device's lamp and the headline, from the server's board and the last snapshot. */
import { useMemo } from "react";
import { useBoard } from "../api/queries";
import type { Holder, Verdict } from "../api/types";
import { useNow } from "../live/store";
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

/** Stale data is grey: it may no longer be true. */
export function useJudged(): Judged {
  const { snapshot, staleSeconds, link, refusal } = useNow();
  const board = useBoard();
  return useMemo(() => {
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
  }, [snapshot, staleSeconds, link.state, refusal, board]);
}

export function acknowledgedText(by: string): string {
  return by ? `acknowledged by ${by}` : "acknowledged";
}
