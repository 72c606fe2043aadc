/** A percentage as a bar; empty if unknown. */
import { memo } from "react";
import { known } from "../lib/format";

export const Meter = memo(function Meter({ percent }: { percent: number | null }) {
  const share = known(percent) ? Math.min(100, Math.max(0, percent)) / 100 : 0; // moves by whole percents: it rests while nothing happens
  return (
    <span className={`meter${known(percent) ? "" : " unknown"}`} aria-hidden="true">
      <span style={{ transform: `scaleX(${share.toFixed(2)})` }} />
    </span>
  );
});
