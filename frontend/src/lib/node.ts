/** Which node of a hub this page is about, if it is not the server's own: it is in the address. */

/** `/?node=n17#/charts`: every link within the page stays with the node. */
export const NODE: string | null = new URLSearchParams(globalThis.location?.search ?? "").get("node") || null;
export const FLEET = "/#/fleet";

/** The board of a node; `rest` is a place in it, such as `#/charts`. */
export const nodeLink = (name: string, rest = "#/"): string => `/?node=${encodeURIComponent(name)}${rest}`;

/** Where `#/node/n17/charts?t=1h` leads; null for any other place. */
export function nodeOf(hash: string): string | null {
  const found = /^#\/node\/([^/?]+)\/?(.*)$/.exec(hash);
  return found ? nodeLink(decodeURIComponent(found[1] as string), `#/${found[2]}`) : null;
}

/** The route that answers for a node; null is the server's own. */
export function below(path: string, node: string | null): string {
  return node === null ? path : path.replace(/^\/api\//, `/api/nodes/${encodeURIComponent(node)}/`);
}
