/** Utilisation over the last hours or minutes as a line, over hairlines at 0, 50 and 100 %. */
import { memo } from "react";

const WIDTH = 120;
const HEIGHT = 24;
const RULES = [1, HEIGHT / 2, HEIGHT - 1].map((y) => `M0 ${y}H${WIDTH}`).join("");

export interface Paths {
  line: string;
  area: string;
}

/** A line through the values and the area below it, with gaps; the scale is fixed at 0 to 100. */
export function paths(values: (number | null)[]): Paths {
  const step = WIDTH / Math.max(1, values.length - 1);
  const found: Paths = { line: "", area: "" };
  let run: string[] = [];
  let begin = 0;
  const end = (place: number) => {
    if (!run.length) return;
    const last = ((place - 1) * step).toFixed(1);
    found.line += `M${run.join("L")}${run.length === 1 ? "h0.01" : ""}`; // a single reading is a point
    found.area += `M${(begin * step).toFixed(1)} ${HEIGHT - 1}L${run.join("L")}L${last} ${HEIGHT - 1}z`;
    run = [];
  };
  values.forEach((value, place) => {
    if (value === null) {
      end(place);
      return;
    }
    if (!run.length) begin = place;
    const y = HEIGHT - 1 - (Math.min(100, Math.max(0, value)) / 100) * (HEIGHT - 2);
    run.push(`${(place * step).toFixed(1)} ${y.toFixed(1)}`);
  });
  end(values.length);
  return found;
}

export const Sparkline = memo(function Sparkline({ line, area }: Paths) {
  return (
    <svg className="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      <path className="rules" d={RULES} />
      <path className="area" d={area} />
      <path className="line" d={line} />
    </svg>
  );
});
