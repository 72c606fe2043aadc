/** Rows of bars over the charts' time range: throttling by its share of the time, and processes. */
import type { Segment } from "./data";
import type { Room } from "./room";
import { Surface } from "./Surface";

export interface Strip {
  key: string;
  label: string;
  detail?: string;
  tone: string;
  segments: Segment[];
}

interface Props {
  title: string;
  name: string;
  rows: Strip[];
  room: Room;
  at: number[];
  told: (at: number) => string;
  empty: string;
}

const HEIGHT = 16;

export function Strips({ title, name, rows, room, at, told, empty }: Props) {
  return (
    <figure className="chart strips" aria-label={`${title}: ${rows.map((row) => `${row.label} ${row.detail ?? ""}`).join("; ") || empty}`}>
      <figcaption><b>{title}</b></figcaption>
      {rows.length === 0 ? <p className="dim">{empty}</p> : (
        <div className="drawn">
          <ul>
            {rows.map((row) => (
              <li key={row.key} title={row.detail}>
                <span className="strip-label">{row.label}<span className="dim"> {row.detail}</span></span>
                <svg className={`strip ${row.tone}`} viewBox={`0 0 1000 ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
                  {row.segments.map((segment) => <Bar key={segment.since} segment={segment} room={room} />)}
                </svg>
              </li>
            ))}
          </ul>
          <div className="over"><Surface name={name} room={room} at={at} told={told} /></div>
        </div>
      )}
    </figure>
  );
}

/** As high as its share of the time. */
function Bar({ segment, room }: { segment: Segment; room: Room }) {
  const share = (at: number) => Math.min(1, Math.max(0, (at - room.since) / (room.until - room.since)));
  const left = share(segment.since);
  const width = Math.max(0.002, share(segment.until) - left);
  const high = Math.max(1, segment.share * HEIGHT);
  return <rect x={left * 1000} width={width * 1000} y={HEIGHT - high} height={high} />;
}
