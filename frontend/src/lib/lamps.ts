/** The lamp of a device: the server's word, else what its state alone tells. */
import type { Alert, Board, BoardDevice, Device, Snapshot } from "../api/types";
import { duration, known } from "./format";

export type Colour = "green" | "amber" | "red" | "grey";

export interface Lamp {
  colour: Colour;
  word: string;
  reason: string | null;
  forWhom: string | null;
}

export const UNKNOWN: Lamp = { colour: "grey", word: "no data", reason: null, forWhom: null };

export interface Said {
  at: number;
  devices: Map<string, BoardDevice>;
}

/** What the server said about a device counts if it was said after the device's state changed. */
export function lampOf(device: Device, told: Said | null, at: number): Lamp {
  const said = told?.devices.get(device.uuid);
  if (!told || !said || told.at < device.since) return plain(device, at);
  if (said.lamp === "green") return { ...plain(device, at), colour: "green", word: workOf(device) };
  return { colour: said.lamp as Colour, word: said.status, reason: said.reason, forWhom: said.affected_user };
}

function plain(device: Device, at: number): Lamp {
  const lamp = (colour: Colour, word: string, reason: string | null = device.reason): Lamp => ({
    colour, word, reason, forWhom: null,
  });
  if (device.state === "lost") return lamp("red", "lost");
  if (device.state === "asleep") return lamp("grey", "asleep");
  if (device.state === "stale") {
    return lamp("grey", "silent", device.reason ?? `no answer for ${duration(at - device.since)}`);
  }
  if (!device.sample) return lamp("grey", "no data");
  return lamp("green", workOf(device));
}

/** How busy in a word, as the server says it; from the last reading, so that the two never differ. */
function workOf(device: Device): string {
  const busy = device.sample?.utilization_percent;
  if (!known(busy)) return "fine";
  if (busy <= 0) return "idle";
  return busy <= 25 ? "light work" : "working";
}

/** A reason without what stands beside it anyway: which device it is, and what about it. */
export function shortened(reason: string | null): string | null {
  return reason?.replace(/^GPU [\d:]+ [^:]*: /, "") ?? null;
}

/** Whether an alert lights a lamp: one that another explains, or that is only information, does not. */
export function isLit(alert: Alert): boolean {
  return alert.state === "firing" && alert.level !== "info" && alert.inhibited_by === null;
}

const RANK: Record<Colour, number> = { red: 3, amber: 2, grey: 1, green: 0 };

/** The headline where the server has none: counts, and the first that needs help. */
export function headline(snapshot: Snapshot, lamps: Map<string, Lamp>): { colour: Colour; text: string } {
  const boards = snapshot.devices.filter((device) => device.parent === null);
  if (!boards.length) return { colour: "grey", text: "No GPU was found on this machine" };
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
  return boards === 1 ? "The GPU is fine" : `All ${boards} GPUs are fine`;
}

export function saidBy(board: Board | undefined): Said | null {
  if (!board) return null;
  return { at: board.at, devices: new Map(board.devices.map((device) => [device.uuid, device])) };
}
