/** What `andon check` found on a device over time: how its numbers moved, and each result. */
import { usePast } from "../api/ports";
import type { Check } from "../api/types";
import { DASH, dateOf, known, traffic } from "../lib/format";
import { Command } from "../parts/Command";
import { type Column, Table } from "../parts/Table";

const LINES = [
  { part: "fp32", name: "FP32", colour: "--chart-1" },
  { part: "tensor", name: "tensor cores", colour: "--chart-2" },
  { part: "memory", name: "memory", colour: "--chart-3" },
] as const;
const LISTED = 8;
const [WIDTH, HEIGHT, LEAST, MOST] = [300, 60, 0.7, 1.05];
const TONES: Record<string, string> = { ok: "", unjudged: "", slow: "amber" };

export function Checks({ uuid, label }: { uuid: string; label: string }) {
  const found = usePast((past) => past.checks(uuid)).data?.checks.filter((one) => one.verdict !== "failed") ?? [];
  if (!found.length) return null;
  return (
    <section className="panel checks">
      <h2>Checks <Command text={`andon checks ${label}`} /></h2>
      {found.length > 1 && <Course checks={found} />}
      <Table caption="checks" columns={COLUMNS} rows={found.slice(-LISTED).reverse()} rowKey={(one) => String(one.at)} stacked />
      {found.length > LISTED && <p className="dim">the last {LISTED} of {found.length}</p>}
    </section>
  );
}

const valueOf = (check: Check, part: string) => check.parts?.find((one) => one.name === part)?.value ?? null;

/** Each number as a share of the first that is known; what is below 70 % stands at the bottom. */
function Course({ checks }: { checks: Check[] }) {
  const [first, last] = [checks[0]?.at ?? 0, checks[checks.length - 1]?.at ?? 1];
  const x = (at: number) => 4 + ((WIDTH - 8) * (at - first)) / Math.max(1, last - first);
  const y = (share: number) => HEIGHT * (1 - (Math.min(MOST, Math.max(LEAST, share)) - LEAST) / (MOST - LEAST));
  const drawn = LINES.flatMap(({ part, name, colour }) => {
    const points = checks.map((one) => [one, valueOf(one, part)] as const).filter((pair): pair is [Check, number] => known(pair[1]));
    const start = points[0]?.[1];
    if (!start) return [];
    const now = (points[points.length - 1]?.[1] ?? start) / start - 1;
    return [{ name, colour, points: points.map(([one, value]) => [x(one.at), y(value / start), one.verdict] as const), now: `${now < 0 ? "−" : "+"}${Math.abs(100 * now).toFixed(1)}\u00a0%` }];
  });
  const said = drawn.map((one) => `${one.name} ${one.now}`).join(", ");
  return (
    <figure aria-label={`since the first check: ${said}`}>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        {[1, 0.85].map((share) => <path key={share} className="grid" d={`M0 ${y(share)}H${WIDTH}`} />)}
        {drawn.map((one) => (
          <g key={one.name} stroke={`var(${one.colour})`}>
            <path d={`M${one.points.map(([px, py]) => `${px.toFixed(1)} ${py.toFixed(1)}`).join("L")}`} />
            {one.points.map(([px, py, verdict]) => <path key={px} className={`dot ${TONES[verdict] ?? "red"}`} d={`M${px.toFixed(1)} ${py.toFixed(1)}h0`} />)}
          </g>
        ))}
      </svg>
      <figcaption>
        {drawn.map((one) => <span key={one.name}><i style={{ background: `var(${one.colour})` }} /> {one.name} <b>{one.now}</b> </span>)}
        <span className="dim">since {dateOf(first)}; lines at 100 and 85 % of it</span>
      </figcaption>
    </figure>
  );
}

const tera = (value: number | null, unit: string, digits: number) => (known(value) ? `${(value / 1e12).toFixed(digits)}\u00a0${unit}` : DASH);

function linkOf(check: Check): string {
  const [to, from] = [valueOf(check, "to_device"), valueOf(check, "from_device")];
  return known(to) && known(from) ? traffic(to, from) : DASH;
}

const COLUMNS: Column<Check>[] = [
  { name: "when", cell: (one) => dateOf(one.at) },
  { name: "FP32", cell: (one) => tera(valueOf(one, "fp32"), "TFLOP/s", 1), number: true },
  { name: "tensor", cell: (one) => tera(valueOf(one, "tensor"), "TFLOP/s", 0), number: true },
  { name: "memory", cell: (one) => tera(valueOf(one, "memory"), "TB/s", 2), number: true },
  { name: "host link", cell: linkOf, number: true, wide: true },
  { name: "result", cell: (one) => <span className={`verdict ${TONES[one.verdict] ?? "red"}`}>{one.text}</span> },
];
