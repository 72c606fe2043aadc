/** The board: the headline, the node's totals, and a lamp for every device. */
import { useMemo, useRef } from "react";
import type { Device, Snapshot } from "../api/types";
import { DeviceCharts } from "../charts/DeviceCharts";
import { Scope } from "../charts/Scope";
import { useCard } from "../lib/card";
import { useFit } from "../lib/fit";
import { gib, known, percent, used, vendorName, withUnit } from "../lib/format";
import type { Judged } from "../lib/judged";
import { heldBy } from "../lib/holding";
import { UNKNOWN } from "../lib/lamps";
import { deviceLink } from "../lib/router";
import { live, useNow } from "../live/store";
import { Card } from "../parts/Card";
import { Command } from "../parts/Command";
import { Lamp } from "../parts/Lamp";
import { Notice } from "../parts/Notice";
import { Tile } from "../parts/Tile";
import { Users } from "../parts/Users";
import { WhyPanel } from "../parts/WhyPanel";

const FEW = 2;

interface Props {
  judged: Judged;
  search: string;
  query: URLSearchParams;
}

export function BoardPage({ judged, search, query }: Props) {
  const { snapshot, staleSeconds } = useNow();
  const few = snapshot !== null && snapshot.devices.length <= FEW;
  return (
    <>
      <header className={`headline ${judged.colour}`}>
        <Lamp colour={judged.colour} />
        <h1>{judged.headline}</h1>
      </header>
      {snapshot && <Strip snapshot={snapshot} />}
      {snapshot && snapshot.devices.length > 0 && (
        <Group snapshot={snapshot} judged={judged} search={search} old={staleSeconds !== null} few={few} />
      )}
      {snapshot && few && snapshot.devices.length > 0 && (
        <Few devices={snapshot.devices} query={query} old={staleSeconds !== null} />
      )}
      {snapshot && <Faults snapshot={snapshot} />}
    </>
  );
}

function Strip({ snapshot }: { snapshot: Snapshot }) {
  const boards = snapshot.devices.filter((device) => device.parent === null);
  const read = boards.flatMap((device) => (device.state === "ok" && device.sample ? [device.sample] : []));
  const busy = read.flatMap((s) => (known(s.utilization_percent) ? [s.utilization_percent] : []));
  const watts = read.flatMap((s) => (known(s.power_watts) ? [s.power_watts] : []));
  const hot = read.flatMap((s) => (known(s.temperature_celsius) ? [s.temperature_celsius] : []));
  const sum = (values: number[]) => values.reduce((a, b) => a + b, 0);
  const host = snapshot.host;
  const facts: [string, string][] = [
    ["responding", `${read.length} of ${boards.length}`],
    ["utilisation", busy.length ? percent(sum(busy) / busy.length) : "–"],
    ["power", watts.length ? power(sum(watts)) : "–"],
    ["hottest", hot.length ? withUnit(Math.max(...hot), "°C") : "–"],
    ["CPU", percent(host.cpu_percent)],
    ["memory", used(host.memory_used_bytes, host.memory_total_bytes, "GiB", gib)],
    ["load", known(host.load_1m) ? host.load_1m.toFixed(1) : "–"],
  ];
  return (
    <dl className="strip">
      {facts.map(([name, value]) => (
        <div key={name}><dt>{name}</dt><dd>{value}</dd></div>
      ))}
    </dl>
  );
}

function power(watts: number): string {
  return watts >= 10_000 ? `${(watts / 1000).toFixed(1)} kW` : `${watts.toFixed(0)} W`;
}

interface GroupProps {
  snapshot: Snapshot;
  judged: Judged;
  search: string;
  old: boolean;
  /** Their charts follow below: the tiles need not fill the page. */
  few: boolean;
}

function Group({ snapshot, judged, search, old, few }: GroupProps) {
  const grid = useRef<HTMLUListElement>(null);
  const found = useFit(grid, snapshot.devices.length, few ? FEW_HEIGHT : undefined);
  const { shown, point, show, hide } = useCard();
  const matches = useMemo(() => matcher(search), [search]);
  const driver = snapshot.versions["driver"];
  return (
    <section className={`group${old ? " old" : ""}`} aria-label={snapshot.node}>
      <h2>
        {snapshot.node}
        {driver && <span className="dim"> driver {driver}</span>}
        {!few && <a className="more" href="#/charts">all GPUs over time</a>}
      </h2>
      <ul
        ref={grid}
        className={`tiles${found?.narrow ? " narrow" : ""}`}
        style={{
          gridTemplateColumns: `repeat(${found?.columns ?? 1}, minmax(0, 1fr))`,
          gridAutoRows: `${found?.height ?? 100}px`,
          visibility: found ? "visible" : "hidden",
        }}
        onPointerMove={point}
        onPointerLeave={hide}
        onFocus={(event) => event.target.matches(":focus-visible") && show(event.target)}
        onBlur={hide}
        onKeyDown={(event) => found && walk(event, found.columns)}
      >
        {snapshot.devices.map((device) => {
          const lamp = judged.lamps.get(device.uuid) ?? UNKNOWN;
          const held = heldBy(judged.holders[device.uuid]);
          const verdict = judged.verdicts.get(device.uuid);
          return (
            <Tile
              key={device.uuid}
              uuid={device.uuid}
              density={found?.density ?? "compact"}
              narrow={found?.narrow ?? false}
              colour={lamp.colour}
              word={lamp.word}
              reason={lamp.reason}
              forWhom={lamp.forWhom}
              held={held?.users ?? null}
              until={held?.until ?? null}
              kind={verdict?.kind ?? null}
              why={verdict?.reason ?? null}
              faded={!matches(device, held?.users)}
            />
          );
        })}
      </ul>
      {shown && <Card uuid={shown.uuid} anchor={shown.anchor} lamp={judged.lamps.get(shown.uuid) ?? UNKNOWN} holders={judged.holders[shown.uuid] ?? []} verdict={judged.verdicts.get(shown.uuid)} />}
    </section>
  );
}

/** With one or two GPUs there is room for what is behind their tiles. */
function Few({ devices, query, old }: { devices: Device[]; query: URLSearchParams; old: boolean }) {
  const one = devices.length === 1;
  const first = devices[0] as Device;
  const command = one ? `andon history ${live.label(first.uuid)}` : "andon history";
  return (
    <Scope query={query} command={command} className={`few${one ? " one" : ""}${old ? " old" : ""}`}>
      {(room) => devices.map((device) => (
        <section key={device.uuid} className="device-page" aria-label={`GPU ${live.label(device.uuid)}`}>
          <div>
            {!one && <h2><a href={deviceLink(device.uuid)}>GPU {live.label(device.uuid)}</a></h2>}
            <DeviceCharts device={device} room={room} kinds={FEW_KINDS} />
          </div>
          <aside aria-label={`about GPU ${live.label(device.uuid)}`}>
            <WhyPanel uuid={device.uuid} label={live.label(device.uuid)} />
            <Users device={device} />
          </aside>
        </section>
      ))}
    </Scope>
  );
}

const FEW_HEIGHT = 196;
const FEW_KINDS = 4;

/** Tiles keep their places during a search; those that do not match fade. */
function matcher(search: string): (device: Device, holders?: string) => boolean {
  const term = search.trim().toLowerCase();
  if (!term) return () => true;
  return (device, holders) => {
    const texts = [`gpu ${device.label}`, device.uuid, device.name, device.state, device.pci ?? "", holders ?? ""];
    for (const one of device.processes) texts.push(one.user ?? "", one.name ?? "", one.program ?? "", String(one.pid), one.job ?? "");
    return texts.some((text) => text.toLowerCase().includes(term));
  };
}

const STEPS: Record<string, (columns: number) => number> = {
  ArrowLeft: () => -1,
  ArrowRight: () => 1,
  ArrowUp: (columns) => -columns,
  ArrowDown: (columns) => columns,
};

function walk(event: React.KeyboardEvent<HTMLElement>, columns: number): void {
  const step = STEPS[event.key]?.(columns);
  if (step === undefined) return;
  const tiles = [...event.currentTarget.querySelectorAll<HTMLElement>("a[data-uuid]")];
  const here = tiles.indexOf(document.activeElement as HTMLElement);
  const next = here < 0 ? tiles[0] : tiles[here + step];
  next?.focus();
  event.preventDefault();
}

/** What cannot be read, and what to do where there is no GPU. */
function Faults({ snapshot }: { snapshot: Snapshot }) {
  return (
    <>
      {snapshot.faults.map((fault) => (
        <Notice key={fault.source} title={`${vendorName(fault.source)} cannot be read`} tone="bad">
          <p>{fault.reason}</p>
          {fault.hint && <p className="dim">{fault.hint}</p>}
        </Notice>
      ))}
      {snapshot.devices.length === 0 && (
        <Notice title={`No GPU found on ${snapshot.node}`}>
          <p>The machine's own values above are live. A GPU appears here automatically once it responds.</p>
          <p><Command label="find out why" text="andon doctor" /></p>
          <p><Command label="try it with simulated GPUs" text="andon serve --simulate 8" /></p>
        </Notice>
      )}
    </>
  );
}
