/** Rows of bars over the charts' time range: throttling, and processes. */
import type { Segment } from "./data";

export interface Strip {
  key: string;
  label: string;
  detail?: string;
  tone: string;
  segments: Segment[];
}

interface Props {
  title: string;
  rows: Strip[];
  since: number;
  until: number;
  cursor: number | null;
  empty: string;
}

export function Strips({ title, rows, since, until, cursor, empty }: Props) {
  const share = (at: number) => Math.min(1, Math.max(0, (at - since) / (until - since)));
  return (
    <figure className="chart strips" aria-label={title}>
      <figcaption><b>{title}</b></figcaption>
      {rows.length === 0 && <p className="dim">{empty}</p>}
      <ul>
        {rows.map((row) => (
          <li key={row.key} title={row.detail}>
            <span className="strip-label">{row.label}<span className="dim"> {row.detail}</span></span>
            <svg className={`strip ${row.tone}`} viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">
              {row.segments.map((segment) => {
                const left = share(segment.since);
                const width = Math.max(0.002, share(segment.until) - left);
                return <rect key={segment.since} x={left * 1000} width={width * 1000} y="0" height="10" />;
              })}
              {cursor !== null && <rect className="cursor" x={share(cursor) * 1000} width="1" y="0" height="10" />}
            </svg>
          </li>
        ))}
      </ul>
    </figure>
  );
}
