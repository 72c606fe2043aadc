/** A table that sorts by a column. */
import { type ReactNode, useMemo, useState } from "react";

export interface Column<T> {
  name: string;
  /** The sort key; unknown values come last. */
  by?: (row: T) => string | number | null;
  cell: (row: T) => ReactNode;
  number?: boolean;
  /** Hidden on a narrow page. */
  wide?: boolean;
}

interface Props<T> {
  caption: string;
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T) => string;
  sort?: string;
  /** On a narrow page each row becomes a list of its cells. */
  stacked?: boolean;
}

export function Table<T>({ caption, columns, rows, rowKey, sort, stacked = false }: Props<T>) {
  const [order, setOrder] = useState<{ name: string; down: boolean }>({ name: sort ?? "", down: true });
  const sorted = useMemo(() => sortedBy(rows, columns, order), [rows, columns, order]);
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={caption}>
      <table className={stacked ? "stacked" : undefined}>
        <caption className="hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th
                key={column.name} scope="col" className={classes(column)}
                aria-sort={order.name !== column.name ? undefined : order.down ? "descending" : "ascending"}
              >
                {column.by ? (
                  <button type="button" onClick={() => setOrder((o) => ({ name: column.name, down: o.name === column.name ? !o.down : true }))}>
                    {column.name}
                    <span aria-hidden="true">{order.name === column.name ? (order.down ? "\u00a0↓" : "\u00a0↑") : ""}</span>
                  </button>
                ) : column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted.map((row) => (
            <tr key={rowKey(row)}>
              {columns.map((column) => <td key={column.name} className={classes(column)} data-name={stacked ? column.name : undefined}>{column.cell(row)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function classes<T>(column: Column<T>): string | undefined {
  return [column.number && "number", column.wide && "wide"].filter(Boolean).join(" ") || undefined;
}

function sortedBy<T>(rows: T[], columns: Column<T>[], order: { name: string; down: boolean }): T[] {
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
