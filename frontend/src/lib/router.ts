/** Pages by the URL's fragment, which never reaches the server: one file serves every page. */
import { useSyncExternalStore } from "react";
import { nodeOf } from "./node";
import type { Order } from "../parts/Table";

export interface Route {
  page: string;
  /** What follows the page: a device's uuid, an alert's id. */
  name: string | null;
  query: URLSearchParams;
}

let current = parse(location.hash);

export function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [page = "", ...rest] = path.split("/");
  const name = rest.length ? decodeURIComponent(rest.join("/")) : null;
  return { page: page || "board", name, query: new URLSearchParams(query) };
}

// A link to a node of a hub, as people write it.
if (nodeOf(location.hash)) location.replace(nodeOf(location.hash) as string);

const listeners = new Set<() => void>();

function moved(): void {
  const board = nodeOf(location.hash);
  if (board) return location.replace(board);
  const next = parse(location.hash);
  if (next.page === current.page && next.name === current.name && next.query.toString() === current.query.toString()) return;
  current = next;
  for (const listener of listeners) listener();
}
window.addEventListener("hashchange", moved);
window.addEventListener("popstate", moved); // Back to an entry that was pushed

function subscribe(changed: () => void): () => void {
  listeners.add(changed);
  return () => listeners.delete(changed);
}

export function useRoute(): Route {
  return useSyncExternalStore(subscribe, () => current);
}

/** To a place of this board, or to that of another node. */
export function go(place: string): void {
  if (place.startsWith("/")) location.assign(place);
  else location.hash = place;
}

/** Changes the query of this page; Back does not return to what it was. */
export function keep(query: URLSearchParams): void {
  history.replaceState(null, "", placeWith(query));
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

/** Changes the query of this page; Back undoes it. */
export function push(query: URLSearchParams): void {
  if (placeWith(query) === location.hash) return;
  history.pushState(null, "", placeWith(query));
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

/** The query with these changed; an empty text removes one. */
export function withQuery(query: URLSearchParams, changes: Record<string, string>): URLSearchParams {
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    if (value) next.set(name, value);
    else next.delete(name);
  }
  return next;
}

/** The order that the address has, and how a click changes it there: "-util" is from the largest down. */
export function orderIn(query: URLSearchParams): { order: Order; onOrder: (order: Order) => void } {
  const text = query.get("sort") ?? "";
  const order = { name: text.replace(/^-/, ""), down: text.startsWith("-") };
  return { order, onOrder: (next) => keep(withQuery(query, { sort: `${next.down ? "-" : ""}${next.name}` })) };
}

function placeWith(query: URLSearchParams): string {
  const place = location.hash.split("?", 1)[0] || "#/";
  const text = query.toString();
  return text ? `${place}?${text}` : place;
}

export * from "./links";
