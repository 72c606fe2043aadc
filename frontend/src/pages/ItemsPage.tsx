/** A plain table for lists that have no page of their own. */
import { useMemo } from "react";
import { useItems } from "../api/queries";
import { DASH, dateOf, inGib, words } from "../lib/format";
import { Command } from "../parts/Command";
import { Notice, Trouble } from "../parts/Notice";
import { type Column, Table } from "../parts/Table";

type Row = Record<string, unknown>;
const MOST_COLUMNS = 10;
const TIMES = new Set(["at", "since", "until", "started", "ended", "first", "last"]);
const COMMANDS: Record<string, string> = {
  nodes: "andon status",
};

export function ItemsPage({ name, title, search }: { name: string; title: string; search: string }) {
  const found = useItems(name);
  const rows = useMemo(() => matching(found.data?.items ?? [], search), [found.data, search]);
  const columns = useMemo(() => columnsOf(rows), [rows]);
  const command = COMMANDS[name];
  return (
    <section>
      <div className="page-head">
        <h1>{title}</h1>
        {command && <Command text={command} />}
      </div>
      {found.error && <Trouble problem={found.error} what={`${title} cannot be read`} />}
      {rows.length > 0 && <Table caption={title} columns={columns} rows={rows} rowKey={(row) => JSON.stringify(row["id"] ?? row["node"] ?? row)} stacked />}
      {found.data && rows.length === 0 && <Notice title={`No ${name}`}><p>{found.data.note}</p></Notice>}
      {found.data?.note && rows.length > 0 && <p className="dim">{found.data.note}</p>}
    </section>
  );
}

function matching(rows: Row[], search: string): Row[] {
  const term = search.trim().toLowerCase();
  return term ? rows.filter((row) => JSON.stringify(row).toLowerCase().includes(term)) : rows;
}

function columnsOf(rows: Row[]): Column<Row>[] {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter((name) => {
    return name !== "timestamp" && rows.some((row) => row[name] !== null); // a column of dashes is left out
  });
  return names.slice(0, MOST_COLUMNS).map((name) => ({
    name: words(name),
    by: (row) => (typeof row[name] === "number" || typeof row[name] === "string" ? (row[name] as string | number) : null),
    cell: (row) => text(name, row[name]),
    number: rows.every((row) => typeof row[name] === "number"),
  }));
}

function text(name: string, value: unknown): string {
  if (value === null || value === undefined) return DASH;
  if (TIMES.has(name) && typeof value === "number") return dateOf(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "object") return String(value);
  return Object.entries(value).map(([key, one]) => part(key, one)).join(", ") || DASH;
}

function part(key: string, value: unknown): string {
  if (key.endsWith("_bytes")) return `${words(key.replace(/_bytes$/, ""))} ${inGib(value as number | null)}`;
  return `${value} ${words(key)}`;
}
