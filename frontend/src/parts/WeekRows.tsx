/** The days of a week, rows of bars below them, and whose colour is whose. */
import type { CSSProperties, ReactNode } from "react";
import type { Span, TimeRow } from "../lib/timeline";

const weekday = new Intl.DateTimeFormat(undefined, { weekday: "short" });
const date = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const isWeekend = (day: number): boolean => [0, 6].includes(new Date(day * 1000).getDay());

interface Props {
  /** Midnights, with that at the end. */
  days: number[];
  now: number;
  rows: TimeRow[];
  colours: Map<string, string>;
  me: string | null;
  /** Rows from here on are not part of the grid. */
  cells?: number;
  title: (row: TimeRow) => ReactNode;
  /** What else is drawn in a row; `place` gives left and width of a time. */
  over?: (row: number, place: (from: number, to: number) => CSSProperties) => ReactNode;
  onBar: (span: Span) => void;
}

export function WeekRows({ days, now, rows, colours, me, cells = rows.length, title, over, onBar }: Props) {
  const since = days[0] as number;
  const length = (days[days.length - 1] as number) - since;
  const place = (from: number, to: number) => ({ left: `${(100 * (from - since)) / length}%`, width: `${(100 * (to - from)) / length}%` });
  const each = days.slice(0, -1).map((day, nth) => ({ day, style: place(day, days[nth + 1] as number) }));
  return (
    <>
      <div className="time-rows">
        <div className="time-axis midnights" aria-hidden="true">
          {each.map(({ day, style }) => <span key={day} style={style}><b>{weekday.format(day * 1000)}</b> <span className="date">{date.format(day * 1000)}</span></span>)}
        </div>
        <ul>
          {rows.map((row, nth) => (
            <li key={row.id}>
              <span className="row-title">{title(row)}</span>
              <div className="track" data-row={nth < cells ? nth : undefined} style={{ "--lanes": row.lanes } as CSSProperties}>
                <i className="over-already" style={{ width: place(since, now).width }} />
                {each.map(({ day, style }) => <i key={day} className={`tick${isWeekend(day) ? " weekend" : ""}`} style={style} />)}
                {over?.(nth, place)}
                {row.bars.map(({ span, left, width, expected, open, lane }) => (
                  <button
                    key={span.id} type="button" tabIndex={-1} aria-label={span.says} title={span.says} className={`bar-of ${span.tone}${open && span.to === null ? " open" : ""}${span.tone === "reserved" && span.who === me ? " own" : ""}`}
                    style={{ left: `${left}%`, width: `${width}%`, "--lane": lane, "--who": `var(${colours.get(span.who)})`, "--sure": `${100 * (1 - expected)}%` } as CSSProperties}
                    onClick={() => onBar(span)}
                  >
                    <span>{span.label}</span>
                  </button>
                ))}
              </div>
            </li>
          ))}
        </ul>
        <i className="now-line" style={{ "--now": (now - since) / length } as CSSProperties} />
      </div>
      <ul className="plain legend" aria-label="users">
        {[...colours].map(([who, colour]) => <li key={who}><i style={{ background: `var(${colour})` }} />{who}</li>)}
        <li><i className="reserved" />reserved</li>
        <li><i className="hatched" />expected</li>
      </ul>
    </>
  );
}
