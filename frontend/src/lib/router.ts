/** Pages by the URL's fragment, which never reaches the server: one file serves every page. */
import { useSyncExternalStore } from "react";

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

const listeners = new Set<() => void>();
window.addEventListener("hashchange", () => {
  current = parse(location.hash);
  for (const listener of listeners) listener();
});

function subscribe(changed: () => void): () => void {
  listeners.add(changed);
  return () => listeners.delete(changed);
}

export function useRoute(): Route {
  return useSyncExternalStore(subscribe, () => current);
}

export function go(hash: string): void {
  location.hash = hash;
}

/** Changes the query of this page without adding to the browser's history. */
export function keep(query: URLSearchParams): void {
  const place = location.hash.split("?", 1)[0];
  const text = query.toString();
  history.replaceState(null, "", text ? `${place}?${text}` : place);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

export const deviceLink = (uuid: string): string => `#/device/${encodeURIComponent(uuid)}`;
export const alertLink = (id: string): string => `#/alerts/${encodeURIComponent(id)}`;
export const leaseLink = (id: string): string => `#/leases/${encodeURIComponent(id)}`;
