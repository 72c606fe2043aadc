/** A table that sorts by a column; its rows may be grouped, and open to show more. */
import { Fragment, type ReactNode, useMemo, useState } from "react";
import { DASH } from "../lib/format";

export interface Column<T> {
  name: string;
  /** What stands above it, if that is not its name. */
  title?: string;
  /** The sort key; unknown values come last. */
  by?: (row: T) => string | number | null;
  cell: (row: T) => ReactNode;
  number?: boolean;
  /** Hidden on a narrow page. */
  wide?: boolean;
  /** Takes the width that the others leave, and is cut where that is too little. */
  rest?: boolean;
  /** Only to act on a row: it is not printed. */
  acts?: boolean;
}

export interface Order {
  name: string;
  down: boolean;
}

interface Props<T> {
  caption: string;
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T) => string;
  /** The column by which it is sorted first, from the largest down. */
  sort?: string;
  /** Kept by the caller, for example in the address; else by the table. */
  order?: Order;
  onOrder?: (order: Order) => void;
  /** The rows come in that order. */
  sorted?: boolean;
  /** On a narrow page each row becomes a list of its cells. */
  stacked?: boolean;
  /** What a row shows when it is opened. */
  detail?: (row: T) => ReactNode;
  /** Rows with the same name stand together below a heading. */
  group?: { of: (row: T) => string; heading: (rows: T[]) => ReactNode };
}

/** Text is first sorted from A to Z, numbers from the largest down. */
export function nextOrder<T>(before: Order, column: Column<T>): Order {
  return { name: column.name, down: before.name === column.name ? !before.down : column.number === true };
}

export function Table<T>({ caption, columns, rows, rowKey, sort = "", order: given, onOrder, sorted: inOrder = false, stacked = false, detail, group }: Props<T>) {
  const [own, setOwn] = useState<Order>({ name: sort, down: true });
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const order = given ?? own;
  const sorted = useMemo(() => (inOrder ? rows : sortedBy(rows, columns, order)), [inOrder, rows, columns, order]);
  const groups = useMemo(() => (group ? grouped(sorted, group.of) : [["", sorted] as [string, T[]]]), [sorted, group]);
  const toggle = (key: string) => setOpen((before) => {
    const next = new Set(before);
    if (!next.delete(key)) next.add(key);
    return next;
  });
  const span = columns.length + (detail ? 1 : 0);
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={caption}>
      <table className={stacked ? "stacked" : undefined}>
        <caption className="hidden">{caption}</caption>
        <thead>
          <tr>
            {detail && <th scope="col" className="opener"><span className="hidden">details</span></th>}
            {columns.map((column) => (
              <th
                key={column.name} scope="col" className={classes(column)}
                aria-sort={order.name !== column.name ? undefined : order.down ? "descending" : "ascending"}
              >
                {column.by ? (
                  <button type="button" onClick={() => (onOrder ?? setOwn)(nextOrder(order, column))}>
                    {column.title ?? column.name}
                    <span aria-hidden="true">{order.name === column.name ? (order.down ? "\u00a0↓" : "\u00a0↑") : ""}</span>
                  </button>
                ) : column.acts ? <span className="hidden">{column.name}</span> : column.title ?? column.name}
              </th>
            ))}
          </tr>
        </thead>
        {groups.map(([name, members]) => (
          <tbody key={name}>
            {group && <tr className="group"><th scope="rowgroup" colSpan={span}>{group.heading(members)}</th></tr>}
            {members.map((row) => {
              const key = rowKey(row);
              return (
                <Fragment key={key}>
                  <tr className={detail ? "opens" : undefined} onClick={detail && ((event) => onRow(event, () => toggle(key)))}>
                    {detail && (
                      <td className="opener">
                        <button type="button" className="quiet" aria-expanded={open.has(key)} aria-label="details" onClick={() => toggle(key)}>
                          {open.has(key) ? "▾" : "▸"}
                        </button>
                      </td>
                    )}
                    {columns.map((column) => {
                      const cell = column.cell(row);
                      return <td key={column.name} className={classes(column, cell === DASH)} data-name={stacked ? column.title ?? column.name : undefined}>{cell}</td>;
                    })}
                  </tr>
                  {detail && open.has(key) && <tr className="whole"><td colSpan={span}>{detail(row)}</td></tr>}
                </Fragment>
              );
            })}
          </tbody>
        ))}
      </table>
    </div>
  );
}

/** A click anywhere in a row opens it, unless it was meant for something in it, or selects text. */
function onRow(event: React.MouseEvent, open: () => void): void {
  if ((event.target as HTMLElement).closest("a, button") || getSelection()?.toString()) return;
  open();
}

function classes<T>(column: Column<T>, none = false): string | undefined {
  return [column.number && "number", column.wide && "wide", column.rest && "rest", column.acts && "acts", none && "none"].filter(Boolean).join(" ") || undefined;
}

function grouped<T>(rows: T[], of: (row: T) => string): [string, T[]][] {
  const found = new Map<string, T[]>();
  for (const row of rows) {
    const name = of(row);
    const members = found.get(name);
    if (members) members.push(row);
    else found.set(name, [row]);
  }
  return [...found].sort(([a], [b]) => a.localeCompare(b, undefined, { numeric: true }));
}

function sortedBy<T>(rows: T[], columns: Column<T>[], order: Order): T[] {
  const by = columns.find((column) => column.name === order.name)?.by;
  if (!by) return rows;
  const sign = order.down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = [by(a), by(b)];
    if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;
    if (typeof x === "number" && typeof y === "number") return sign * (x - y);
    return sign * String(x).localeCompare(String(y));
  });
}
