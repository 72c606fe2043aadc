/** A percentage as a bar; empty if unknown. */
import { memo, useEffect, useRef } from "react";
import { known } from "../lib/format";

const FAR = 0.05; // a shorter way is not seen to move, and moving it is what an idle page costs most

export const Meter = memo(function Meter({ percent }: { percent: number | null }) {
  const share = known(percent) ? Math.round(Math.min(100, Math.max(0, percent))) / 100 : 0;
  const before = useRef(share);
  const near = share !== before.current && Math.abs(share - before.current) < FAR;
  useEffect(() => void (before.current = share), [share]);
  return (
    <span className={`meter${known(percent) ? "" : " unknown"}${near ? " near" : ""}`} aria-hidden="true">
      <span style={{ transform: `scaleX(${share})` }} />
    </span>
  );
});
