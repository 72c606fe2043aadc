/** The pages of the menu, in groups; index.html has the same, for the first paint. */

interface Item {
  page: string;
  title: string;
  /** Begins a group. */
  apart?: boolean;
}

const ITEMS: Item[] = [
  { page: "board", title: "Board" },
  { page: "charts", title: "Charts" },
  { page: "processes", title: "Processes" },
  { page: "alerts", title: "Alerts", apart: true },
  { page: "runs", title: "Runs", apart: true },
  { page: "jobs", title: "Jobs" },
  { page: "leases", title: "Leases" },
  { page: "estimate", title: "Estimate" },
];
const OPTIONAL = new Set(["runs", "jobs", "leases"]);

/** All of them until the server has said what it lacks: nothing jumps where it lacks nothing. */
export function menu(features: Record<string, boolean>): Item[] {
  const known = Object.keys(features).length > 0;
  const items = ITEMS.filter(({ page }) => !known || !OPTIONAL.has(page) || features[page]);
  return features["nodes"] ? [{ page: "fleet", title: "Fleet" }, ...items] : items;
}

export function linkOf(page: string): string {
  return page === "board" ? "#/" : `#/${page}`;
}
