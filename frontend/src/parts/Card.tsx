/** What a tile has no room for, shown beside it while it is hovered or focused. */
import { useLayoutEffect, useRef, useState } from "react";
import type { Device, Holder, Verdict } from "../api/types";
import { placed } from "../lib/card";
import { duration, gib, isIdle, percent, throttleName, unbroken, used, whole, withUnit } from "../lib/format";
import { together, verdictText } from "../lib/holding";
import { acknowledgedText } from "../lib/judged";
import type { Lamp as Lit } from "../lib/lamps";
import { progressText, type Work } from "../lib/progress";
import { lastRead } from "../live/faces";
import { live, useLive } from "../live/store";
import { HeldBy } from "./HeldBy";
import { Lamp } from "./Lamp";
import { nobody } from "./Users";

interface Props {
  uuid: string;
  lamp: Lit;
  anchor: DOMRect;
  holders: Holder[];
  verdict: Verdict | undefined;
  work: Work[];
}

const MOST_PROCESSES = 6;

export function Card({ uuid, lamp, anchor, holders, verdict, work }: Props) {
  const device = useLive((_, store) => store.device(uuid));
  const at = useLive((now) => now.snapshot?.at ?? 0);
  const box = useRef<HTMLDivElement>(null);
  const [place, setPlace] = useState<{ left: number; top: number } | null>(null);
  useLayoutEffect(() => {
    const size = box.current?.getBoundingClientRect();
    if (!size) return;
    const lit = [...document.querySelectorAll(".tile.red, .tile.amber")].map((one) => one.getBoundingClientRect());
    setPlace(placed(size, anchor, lit, { width: window.innerWidth, height: window.innerHeight }));
  }, [anchor]);
  if (!device) return null;
  const calm = lamp.colour === "green";
  const said = `${lamp.reason ?? lamp.word}${lamp.forWhom ? ` (affects ${lamp.forWhom})` : ""}`;
  const can = verdict && verdictText(verdict, at);
  return (
    <div ref={box} className="card" role="tooltip" id="card" style={place ?? { visibility: "hidden" }}>
      <p className="title">
        <Lamp colour={lamp.colour} /> <b>GPU {live.label(uuid)}</b> {device.name}
      </p>
      <p>{calm && can ? together(said, can) : said}</p>
      {!calm && can && <p className="dim">{can}</p>}
      {lamp.by?.acknowledged_by != null && <p>{acknowledgedText(lamp.by.acknowledged_by)}</p>}
      {(lamp.by?.advice ?? device.hint) && <p className="dim">{unbroken(lamp.by?.advice ?? device.hint ?? "")}</p>}
      {lastRead(device) && <p>{lastRead(device)}</p>}
      {device.state === "ok" && device.sample && <Readings device={device} />}
      {holders.length > 0 && <HeldBy holders={holders} at={at} />}
      {work.map((one) => <p key={one.run}>{one.name}: {progressText(one.progress, at)}</p>)}
      <Processes device={device} at={at} />
    </div>
  );
}

function Readings({ device }: { device: Device }) {
  const s = device.sample;
  if (!s) return null;
  const throttle = (s.throttle ?? []).filter((reason) => !isIdle(reason)).map(throttleName);
  const rows: [string, string][] = [
    ["utilisation", percent(s.utilization_percent)],
    ["memory", used(s.memory_used_bytes, device.memory_total_bytes, "GiB", gib)],
    ["temperature", withUnit(s.temperature_celsius, "°C")],
    ["power", used(s.power_watts, s.power_limit_watts, "W")],
    ["fan", percent(s.fan_percent)],
    ["clock", withUnit(s.sm_clock_mhz, "MHz")],
    ["throttling", throttle.join(", ") || "none"],
  ];
  return (
    <dl>
      {rows.map(([name, value]) => (
        <div key={name}><dt>{name}</dt><dd>{value}</dd></div>
      ))}
    </dl>
  );
}

function Processes({ device, at }: { device: Device; at: number }) {
  if (!device.processes.length) return <p className="dim">{nobody(device)}</p>;
  return (
    <ul>
      {device.processes.slice(0, MOST_PROCESSES).map((one) => (
        <li key={`${one.pid}-${one.started}`}>
          <span>{[one.user, one.program ?? `pid ${one.pid}`].filter(Boolean).join(" · ")}</span>
          <span className="dim">
            {gib(one.memory_bytes)}&nbsp;GiB · {one.started === null ? whole(one.pid) : duration(at - one.started)}
          </span>
        </li>
      ))}
      {device.processes.length > MOST_PROCESSES && <li className="dim">and {device.processes.length - MOST_PROCESSES} more</li>}
    </ul>
  );
}
