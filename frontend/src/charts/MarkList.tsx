/** What happened, as marks on the time axis: each says its text when it is pointed at, and leads there. */
import { memo } from "react";
import { type ChartMark, clustered } from "./marks";

interface Props {
  marks: ChartMark[];
  since: number;
  until: number;
  /** How many fit side by side. */
  slots?: number;
  /** Whether the tab key stops at them: once on a page is enough. */
  stops?: boolean;
}

export const Marks = memo(function Marks({ marks, since, until, slots = 70, stops = false }: Props) {
  const found = clustered(marks, since, until, slots);
  if (!found.length) return null;
  return (
    <ul className="marks" aria-label="what happened" aria-hidden={stops ? undefined : true}>
      {found.map((one) => (
        <li key={`${one.href}${one.share}`} style={{ left: `${one.share * 100}%` }} className={`of-${one.kind ?? "other"}${one.bad ? " is-bad" : ""}${one.share > 0.5 ? " right" : ""}`}>
          <a href={one.href} tabIndex={stops ? 0 : -1} aria-label={one.text} data-told={one.text} />
        </li>
      ))}
    </ul>
  );
});
