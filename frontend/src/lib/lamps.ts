/** The lamp of a device: the server's if known, else from the device's state alone. */
import type { Board, BoardDevice, Device, Snapshot } from "../api/types";
import { duration, known, unbroken } from "./format";

/** A ring calls nobody: an alert may begin or is about to end; "info" marks information. */
export type Colour = "green" | "ring" | "amber" | "red" | "grey" | "info";

export interface Lamp {
  colour: Colour;
  word: string;
  reason: string | null;
  forWhom: string | null;
  /** The alert that lights it. */
  by: BoardDevice["lit_by"];
  /** Somebody has acknowledged or silenced all that lights it. */
  handled: boolean;
}

export const UNKNOWN: Lamp = { colour: "grey", word: "no data", reason: null, forWhom: null, by: null, handled: false };

/** The lamps that the server sent, and when. */
interface ServerLamps {
  at: number;
  devices: Map<string, BoardDevice>;
}

/** The server's lamp counts if it is newer than the device's last change of state. */
export function lampOf(device: Device, server: ServerLamps | null, at: number): Lamp {
  const said = server?.devices.get(device.uuid);
  if (!server || !said || server.at < device.since) return plain(device, at);
  if (said.lamp === "green") return { ...plain(device, at), colour: "green", word: workOf(device) };
  const { lamp, status, lit_by: by, handled } = said;
  return { colour: lamp as Colour, word: status, reason: soonOf(said) ?? (said.reason && unbroken(said.reason)), forWhom: said.affected_user, by, handled };
}

function plain(device: Device, at: number): Lamp {
  const lamp = (colour: Colour, word: string, reason: string | null = device.reason): Lamp => ({
    colour, word, reason, forWhom: null, by: null, handled: false,
  });
  if (device.state === "lost") return lamp("red", "lost");
  if (device.state === "asleep") return lamp("grey", "asleep");
  if (device.state === "stale") {
    return lamp("grey", "not responding", device.reason ?? `not responding for ${duration(at - device.since)}`);
  }
  if (device.state === "unknown") return lamp("grey", "unknown", device.reason);
  if (!device.sample) return lamp("grey", "no data");
  return lamp("green", workOf(device));
}

/** Its use in a word, by the server's bands, from the last reading: so the two never differ. */
export function workOf(device: Device): string {
  const busy = device.sample?.utilization_percent;
  if (!known(busy)) return "fine";
  if (busy <= 0) return "idle";
  return busy <= 25 ? "lightly used" : "in use";
}

/** "alert in 40 s: 91 °C (alert above 80 °C, slows down at 97 °C)". */
function soonOf({ soon }: BoardDevice): string | null {
  const seconds = soon?.fires_in_seconds ?? null;
  return soon && seconds !== null ? `alert in ${duration(seconds)}: ${unbroken(shortened(soon.message) ?? "")}` : null;
}

/** A reason without the device and the condition, which are shown beside it, and without what is usual. */
export function shortened(reason: string | null): string | null {
  const over = /^GPU [\d:]+ was [^(]*\(([^)]*)\); (.*)$/.exec(reason ?? "");
  if (over) return `${over[1]}; ${over[2]}`;
  return reason?.replace(/^GPU [\d:]+ (?:[^:]*: |is |was )?/, "").replace(/ \(up to \S+\s% is normal\)/, "") ?? null;
}

const RANK: Record<Colour, number> = { red: 4, amber: 3, grey: 2, ring: 1, green: 0, info: 0 };

/** The headline if the server sent none: the first GPU that needs attention, and a count. */
export function headline(snapshot: Snapshot, lamps: Map<string, Lamp>): { colour: Colour; text: string } {
  const boards = snapshot.devices.filter((device) => device.parent === null);
  if (!boards.length) return { colour: "grey", text: "No GPU found on this node" };
  const ranked = snapshot.devices
    .map((device) => ({ device, lamp: lamps.get(device.uuid) ?? UNKNOWN }))
    .filter(({ lamp }) => lamp.colour !== "green" && lamp.word !== "asleep")
    .sort((a, b) => RANK[b.lamp.colour] - RANK[a.lamp.colour]);
  const first = ranked[0];
  if (!first) return { colour: "green", text: fine(boards.length) };
  const more = ranked.length > 1 ? `, and ${ranked.length - 1} more` : "";
  const why = first.lamp.reason ? `: ${first.lamp.reason}` : "";
  return { colour: first.lamp.colour, text: `GPU ${first.device.index} is ${first.lamp.word}${why}${more}` };
}

function fine(boards: number): string {
  if (boards <= 2) return boards === 1 ? "The GPU is fine" : "Both GPUs are fine";
  return `All ${boards} GPUs are fine`;
}

export function serverLamps(board: Board | undefined): ServerLamps | null {
  if (!board) return null;
  return { at: board.at, devices: new Map(board.devices.map((device) => [device.uuid, device])) };
}
