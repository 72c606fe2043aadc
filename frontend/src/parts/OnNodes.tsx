/** On a page of a hub: the nodes of which the same page has something, with the way there. */
import { useFeatures } from "../api/asking";
import { useNodes } from "../api/server";
import type { NodeRow } from "../api/types";
import { colourOf, needy, taskWords } from "../lib/fleet";
import { count } from "../lib/format";
import { NODE, nodeLink } from "../lib/node";
import { Lamp } from "./Lamp";
import { type Column, Table } from "./Table";

/** What each page says of a node; null: nothing. */
const SAID = {
  alerts: (row: NodeRow) => [alertsOf(row), row.reason].filter(Boolean).join(" · ") || null,
  processes: (row: NodeRow) => row.users.join(", ") || null,
  leases: (row: NodeRow) => (row.allocated ? `${count(row.allocated, "GPU")}: ${row.holders.map(taskWords).join(", ")}` : null),
  jobs: (row: NodeRow) => row.holders.filter((one) => one.job !== null).map(taskWords).join(", ") || null,
};
const HEADINGS: Record<keyof typeof SAID, string> = { alerts: "alerts", processes: "users", leases: "held", jobs: "jobs that run" };

const alertsOf = ({ alerts }: NodeRow): string => ["critical", "warning"].filter((level) => alerts[level]).map((level) => `${alerts[level]} ${level}`).join(", ");

/** Whether a page is about the hub's own machine: the nodes have more of the same. */
export const useHub = (): boolean => (useFeatures()["nodes"] ?? false) && NODE === null;

export function OnNodes({ page }: { page: keyof typeof SAID }) {
  return useHub() ? <Listed page={page} /> : null;
}

function Listed({ page }: { page: keyof typeof SAID }) {
  const list = useNodes(true).data;
  const others = list?.nodes.filter((one) => one.name !== list.own) ?? [];
  const rows = others.filter((one) => SAID[page](one) !== null).sort(needy);
  if (!others.length) return null;
  const columns: Column<NodeRow>[] = [
    { name: "node", cell: (row) => <a href={nodeLink(row.name, `#/${page}`)}>{row.name}</a> },
    { name: "state", cell: (row) => <><Lamp colour={colourOf(row)} /> {row.state}</>, wide: true },
    { name: HEADINGS[page], cell: SAID[page], rest: true },
  ];
  return (
    <section className="panel on-nodes">
      <h2>On other machines</h2>
      {rows.length > 0 ? <Table caption="nodes" columns={columns} rows={rows} rowKey={(row) => row.name} /> : <p className="dim">Nothing on the {count(others.length, "node")} that report here.</p>}
    </section>
  );
}
