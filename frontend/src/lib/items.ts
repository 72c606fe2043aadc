/** What a node of a hub has: where its page is, and how it is found. */
import type { FleetItem, NodeRow } from "../api/types";
import type { Entry } from "./finding";
import { freeOf, gpusOf, gpuWords } from "./fleet";
import { count, unbroken, words } from "./format";
import { alertLink, deviceLink, jobLink, leaseLink, userLink } from "./links";
import { nodeLink } from "./node";

/** A place on a node's board; that of the hub's own machine is this one. */
export const placeOf = (node: string, own: string, place: string): string => (node === own ? place : nodeLink(node, place));

const PLACES: Record<FleetItem["kind"], (item: FleetItem) => string> = {
  alert: (item) => alertLink(item.id),
  silence: () => "#/alerts",
  job: (item) => jobLink(item.id, item.user ?? undefined),
  lease: (item) => leaseLink(item.id),
  waiting: () => "#/leases",
  cordon: (item) => deviceLink(item.id),
  ended: (item) => alertLink(item.id),
  process: (item) => `#/process/${encodeURIComponent(item.id)}`,
};

export const itemLink = (item: FleetItem, own: string): string => placeOf(item.node, own, PLACES[item.kind](item));

const KINDS: Record<FleetItem["kind"], Entry["kind"]> = { alert: "alert", silence: "alert", job: "job", lease: "lease", waiting: "lease", cordon: "GPU", ended: "alert", process: "process" };

export function entryOf(item: FleetItem, own: string): Entry {
  const title = item.kind === "waiting" ? `${item.user} waits for ${item.wants} GPUs` : item.kind === "cordon" ? `GPU ${item.gpus[0]} is out of service: ${item.title}` : item.kind === "job" ? `Job ${item.id} ${item.title}` : unbroken(item.title);
  const gpus = item.gpus.length ? `GPU ${item.gpus.join(", ")}` : "";
  return { kind: KINDS[item.kind], title, detail: [item.node, words(item.state), item.user, gpus].filter(Boolean).join(" · "), act: itemLink(item, own) };
}

/** The nodes, of one whose name is typed its GPUs and no other node, and the people who use them. */
export function nodeEntries(rows: NodeRow[], own: string, typed: string): Entry[] {
  const asked = typed.toLowerCase().split(/[\s:]+/).filter(Boolean);
  const named = rows.filter((row) => asked.includes(row.name.toLowerCase()));
  const people = [...new Set(rows.flatMap((row) => row.users))].sort();
  return [
    ...(named.length ? named : rows).map((row): Entry => ({ kind: "node", title: row.name, detail: [row.state, row.reason, freeOf(row) && `${count(freeOf(row), "GPU")} free`].filter(Boolean).join(" · "), act: nodeLink(row.name) })),
    ...named.flatMap((row) => gpusOf(row).map((one): Entry => ({ kind: "GPU", title: `${row.name}:${one.label}`, detail: gpuWords(one), words: `${row.name} gpu ${one.label}`, act: placeOf(row.name, own, deviceLink(one.label)) }))),
    ...people.map((name): Entry => ({ kind: "user", title: name, detail: "on all nodes", act: userLink(name) })),
  ];
}
