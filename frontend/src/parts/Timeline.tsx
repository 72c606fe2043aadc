/** What held each GPU, holds it and is expected to: a row each, a bar per job or lease, in one tab stop. */
import { useRef, useState } from "react";
import { coloursOf, neighbour, placed, type Span, ticksOf, tickText } from "../lib/timeline";

const NEAR_NOW = 0.07; // of the width: the label "now" stands there
const NEAR_END = 0.04; // a label there would not fit

interface Props {
  caption: string;
  rows: { id: string; title: string; href?: string | undefined; note?: string | undefined }[];
  spans: Span[];
  /** Whose colours are told apart, if more than those with a bar. */
  people?: string[];
  since: number;
  until: number;
  now: number;
  chosen: string | null;
  onChoose: (id: string) => void;
}

export function Timeline({ caption, rows, spans, people, since, until, now, chosen, onChoose }: Props) {
  const [at, setAt] = useState<string | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const found = placed(rows, spans, since, until);
  const colours = coloursOf(people ?? spans.map((span) => span.who));
  const ids = found.flatMap((row) => row.bars.map((bar) => bar.span.id));
  const first = at !== null && ids.includes(at) ? at : (ids.find((id) => id.startsWith(`${chosen} `)) ?? ids[0]);
  const pressed = (event: React.KeyboardEvent) => {
    const next = event.key.startsWith("Arrow") && first !== undefined ? neighbour(found, first, event.key) : null;
    if (next === null) return;
    event.preventDefault();
    event.stopPropagation();
    setAt(next);
    box.current?.querySelector<HTMLElement>(`[data-span="${CSS.escape(next)}"]`)?.focus();
  };
  const ticks = ticksOf(since, until);
  const share = (moment: number) => `${(100 * (moment - since)) / (until - since)}%`;
  return (
    <div className="timeline" role="group" aria-label={caption} ref={box} onKeyDown={pressed}>
      <div className="time-rows">
      <div className="time-axis" aria-hidden="true">
        {ticks.filter((tick) => Math.abs(tick - now) > NEAR_NOW * (until - since) && until - tick > NEAR_END * (until - since)).map((tick) => <span key={tick} style={{ left: share(tick) }}>{tickText(tick, now)}</span>)}
      </div>
      <ul>
        {found.map((row, place) => (
          <li key={row.id}>
            <span className="row-title">{rows[place]?.href ? <a href={rows[place]?.href}>{row.title}</a> : row.title}</span>
            <div className="track" style={{ "--lanes": row.lanes } as React.CSSProperties}>
              {ticks.map((tick) => <i key={tick} className="tick" style={{ left: share(tick) }} />)}
              {rows[place]?.note && <span className="row-note" style={{ left: share(now) }}>{rows[place]?.note}</span>}
              {row.bars.map(({ span, left, width, expected, open, lane }) => (
                <button
                  key={span.id} type="button" data-span={span.id} tabIndex={span.id === first ? 0 : -1} aria-label={span.says} title={span.says}
                  aria-pressed={chosen !== null && span.id.startsWith(`${chosen} `)} className={`bar-of ${span.tone}${open ? " open" : ""}`}
                  style={{ left: `${left}%`, width: `${width}%`, "--lane": lane, "--who": `var(${colours.get(span.who)})`, "--sure": `${100 * (1 - expected)}%` } as React.CSSProperties}
                  onFocus={() => setAt(span.id)} onClick={() => onChoose(span.id.split(" ")[0] as string)}
                >
                  <span>{span.label}</span>
                </button>
              ))}
            </div>
          </li>
        ))}
      </ul>
      <i className="now-line" style={{ "--now": (now - since) / (until - since) } as React.CSSProperties}><b>now</b></i>
      </div>
      <ul className="plain legend" aria-label="users">
        {[...colours].filter(([who]) => spans.some((span) => span.who === who)).map(([who, colour]) => <li key={who}><i style={{ background: `var(${colour})` }} />{who}</li>)}
        <li><i className="hatched" />expected</li>
      </ul>
    </div>
  );
}
