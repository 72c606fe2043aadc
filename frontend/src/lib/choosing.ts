/** Which tiles stand out: by a filter, and by the words of a search; the others fade in place. */
import type { Device, Holder, Verdict } from "../api/types";
import { shortName } from "../live/faces";
import { verdictText } from "./holding";
import { type Lamp, workOf } from "./lamps";

export const FILTERS = ["free", "mine", "troubled"] as const;
export type Filter = (typeof FILTERS)[number];

/** A device with all that its tile says. */
export interface Told {
  device: Device;
  lamp: Lamp;
  verdict: Verdict | undefined;
  holders: Holder[];
}

export function filterOf(query: URLSearchParams): Filter | null {
  return FILTERS.find((one) => one === query.get("show")) ?? null;
}

export function passes(told: Told, filter: Filter | null, me: string): boolean {
  switch (filter) {
    case "free":
      return told.verdict?.kind === "free";
    case "mine":
      return isMine(told, me);
    case "troubled":
      return isTroubled(told.lamp);
    default:
      return true;
  }
}

/** Whether somebody should act: what is handled, about to begin or about to end calls nobody. */
function isTroubled({ colour, word, handled }: Lamp): boolean {
  return !handled && (colour === "red" || colour === "amber" || (colour === "grey" && word === "not responding"));
}

/** Whether this person holds it, has it held for them, or has a process on it. */
function isMine({ device, holders }: Told, me: string): boolean {
  if (!me) return false;
  const mine = (user: string | null) => user !== null && (user === me || user.endsWith(` for ${me}`));
  return holders.some((one) => mine(one.user)) || device.processes.some((one) => one.user === me) || device.last_users.includes(me);
}

/** Every word that a tile or its card shows. */
function texts({ device, lamp, verdict, holders }: Told): string[] {
  const found = [
    `gpu ${device.label}`, device.uuid, device.name, shortName(device.name), device.pci ?? "", lamp.word, lamp.reason ?? "", lamp.forWhom ?? "",
    verdict ? verdictText(verdict) : "", verdict?.reason ?? "", workOf(device), ...holders.map((one) => one.user), ...device.last_users,
  ];
  if (device.state !== "ok") found.push(device.state);
  for (const one of device.processes) found.push(one.user ?? "", one.name ?? "", one.program ?? "", String(one.pid), one.job ?? "");
  return found;
}

/** Each word of the search has to occur. */
export function matches(told: Told, search: string): boolean {
  const wanted = search.trim().toLowerCase();
  if (!wanted) return true;
  const said = texts(told).map((text) => text.toLowerCase());
  return said.some((text) => text.includes(wanted)) || wanted.split(/\s+/).every((word) => said.some((text) => text.includes(word)));
}
