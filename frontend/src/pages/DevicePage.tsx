/** One device: its readings now and over time, why, its alerts, leases, processes and facts. */
import { useFeatures } from "../api/asking";
import { useAlerts, useLeases } from "../api/ports";
import type { Device, Holder, Verdict } from "../api/types";
import { DeviceCharts } from "../charts/DeviceCharts";
import { Scope } from "../charts/Scope";
import { alertsOn, listed, marks, stateOf } from "../lib/alerting";
import { banner } from "../lib/banner";
import { count, DASH, dateOf, energy, gib, known, ownWords, percent, readingName, traffic, unbroken, used, withUnit } from "../lib/format";
import { together, verdictText } from "../lib/holding";
import { acknowledgedText, type Judged } from "../lib/judged";
import { UNKNOWN } from "../lib/lamps";
import { alertLink } from "../lib/router";
import { lastRead } from "../live/faces";
import { live, useLive, useSilence } from "../live/store";
import { Command } from "../parts/Command";
import { HeldBy } from "../parts/HeldBy";
import { Lamp } from "../parts/Lamp";
import { LeaseActions } from "../parts/LeaseRow";
import { Loading } from "../parts/Loading";
import { Notice } from "../parts/Notice";
import { Take } from "../parts/Take";
import { Users } from "../parts/Users";
import { WhyPanel } from "../parts/WhyPanel";
import { Checks } from "./Checks";

interface Props {
  uuid: string;
  query: URLSearchParams;
  judged: Judged;
}

export function DevicePage({ uuid: name, query, judged }: Props) {
  const uuid = useLive((_, store) => store.named(name));
  const device = useLive((_, store) => store.device(uuid));
  const loaded = useLive((now) => now.snapshot !== null);
  const old = useLive((now) => now.staleSeconds !== null);
  const at = useLive((now) => now.snapshot?.at ?? 0);
  const alerts = useAlerts((alerts) => alerts.latest());
  if (!device) {
    if (!loaded) return <Loading what="this device" />;
    return (
      <Notice title="This GPU is no longer present" whole>
        <p>It may have been removed, or the driver no longer lists it. The <a href="#/">board</a> shows the GPUs that are present.</p>
        <p><Command label="find out why" text="andon doctor" /></p>
      </Notice>
    );
  }
  const lamp = judged.lamps.get(uuid) ?? UNKNOWN;
  const verdict = judged.verdicts.get(uuid);
  const alert = alerts.data?.alerts.find((one) => one.id === lamp.by?.id);
  const calm = lamp.colour === "green";
  const said = banner(lamp, alert, device, at);
  const last = lastRead(device);
  const can = verdict && (device.state === "ok" || verdict.kind !== "withheld") && verdictText(verdict, at);
  return (
    <article className={old ? "old" : undefined}>
      <header className={`headline device ${lamp.colour}`}>
        <Lamp colour={lamp.colour} />
        <div>
          <h1>GPU {live.label(uuid)} <span className="model">{device.name}</span></h1>
          <p>{calm && can ? together(said, can) : said}</p>
          {lamp.by?.acknowledged_by != null && <p>{acknowledgedText(lamp.by.acknowledged_by)}</p>}
          {!calm && can && <p className="dim">{can}</p>}
          {last && <p>{last}</p>}
          {(lamp.by?.advice ?? device.hint) && <p>{unbroken(lamp.by?.advice ?? device.hint ?? "")}</p>}
        </div>
      </header>
      <Now device={device} />
      <div className="device-page">
        <div>
          <Scope query={query} command={`andon history ${live.label(uuid)}`} title={`GPU ${live.label(uuid)}`}>
            {(room) => <DeviceCharts device={device} room={room} />}
          </Scope>
          {device.check && <Checks uuid={uuid} label={live.label(uuid)} />}
          <div className="below">
            <Facts device={device} />
            <Missing device={device} />
          </div>
        </div>
        <aside aria-label="about this device">
          <WhyPanel uuid={uuid} label={live.label(uuid)} />
          <DeviceAlerts uuid={uuid} />
          <Held holders={judged.holders[uuid] ?? []} device={device} verdict={verdict} />
          <Users device={device} />
        </aside>
      </div>
    </article>
  );
}

const ALWAYS = 4; // the others only where the device reports them

function Now({ device }: { device: Device }) {
  const s = device.state === "ok" ? device.sample : null;
  const { clock } = ownWords(device.vendor);
  const active: [string, string][] = [["SM active", percent(s?.sm_active_percent)], ["tensor active", percent(s?.tensor_active_percent)]];
  const facts: [string, string][] = [
    ["utilisation", percent(s?.utilization_percent)],
    ["memory", used(s?.memory_used_bytes, device.memory_total_bytes, "GiB", gib)],
    ["temperature", withUnit(s?.temperature_celsius, "°C")],
    ["power", used(s?.power_watts, s?.power_limit_watts, "W")],
    ["fan", percent(s?.fan_percent)],
    [clock, withUnit(s?.sm_clock_mhz, "MHz")],
    ...(clock.startsWith("SM") ? active : []),
    ["PCIe received / sent", traffic(s?.pcie_received_bytes_per_second, s?.pcie_sent_bytes_per_second)],
    ["NVLink received / sent", traffic(s?.nvlink_received_bytes_per_second, s?.nvlink_sent_bytes_per_second)],
  ];
  return (
    <dl className="strip large">
      {facts.filter(([, value], place) => place < ALWAYS || value !== DASH).map(([name, value]) => (
        <div key={name}><dt>{name}</dt><dd>{value}</dd></div>
      ))}
    </dl>
  );
}

function DeviceAlerts({ uuid }: { uuid: string }) {
  const silence = useSilence();
  const found = useAlerts((alerts) => alerts.latest());
  const own = found.data ? alertsOn(uuid, listed(found.data)) : [];
  const at = found.data?.at ?? 0;
  return (
    <section className="panel">
      <h2>Alerts</h2>
      {own.length === 0 && <p className="dim">{silence !== null ? "Not known." : found.data ? "None." : "Not available."}</p>}
      <ul className="plain">
        {own.map(({ alert, level, colour, related }) => (
          <li key={alert.id}>
            <Lamp colour={colour} label={level} />{" "}
            <a href={alertLink(alert.id)}>{unbroken(alert.message)}</a> <span className="dim">{[...stateOf(alert, at), ...marks(alert)].join(" · ")}</span>
            {related.map((one) => <p key={one.id} className="dim">related: {unbroken(one.message)} ({stateOf(one, at).join(" · ")})</p>)}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Held({ holders, device, verdict }: { holders: Holder[]; device: Device; verdict: Verdict | undefined }) {
  const there = useFeatures()["leases"];
  const unknown = useAlerts((alerts) => alerts.lamps()).data?.holders_note;
  const at = useLive((now) => now.snapshot?.at ?? 0);
  if (!there) return null;
  return (
    <section className="panel">
      <h2>Held by</h2>
      {holders.length === 0 ? (
        <p className="dim">{device.state === "unknown" ? "Not known." : unknown ?? "No lease on this GPU."}</p>
      ) : <HeldBy holders={holders} at={at} links />}
      {holders.length > 0 && <Given holders={holders} />}
      <Take free={verdict?.kind === "free" ? [device] : []} />
    </section>
  );
}

/** What can be done about the leases on it. */
function Given({ holders }: { holders: Holder[] }) {
  const list = useLeases((leases) => leases.all()).data;
  return <>{list?.leases.filter((one) => one.id !== null && holders.some((held) => held.lease === one.id)).map((one) => <LeaseActions key={one.id} lease={one} id={one.id ?? ""} at={list.at} />)}</>;
}

function Facts({ device }: { device: Device }) {
  const { limits, sample, setup } = device;
  const own = ownWords(device.vendor);
  const mode = (on: boolean | null) => (on === null ? DASH : on ? "on" : "off");
  const later = setup.ecc_pending === null || setup.ecc_pending === setup.ecc ? "" : `, ${mode(setup.ecc_pending)} after a reboot`;
  const link = (generation: number | null | undefined, width: number | null | undefined) =>
    known(generation) && known(width) ? `gen ${generation} ×${width}` : DASH;
  const otherwise = device.vendor === "sim" ? "not simulated" : "not reported by the driver";
  const why = (field: string) => device.missing[field] ?? setup.missing[field] ?? (device.state === "ok" ? otherwise : device.reason ?? otherwise);
  const facts: [string, string, string?][] = [ // a label, a value, and the field that says why there is none
    ["UUID", device.uuid],
    ["PCI", device.pci ?? DASH],
    ["vendor", device.vendor],
    ["memory", `${used(device.memory_total_bytes, null, "GiB", gib)}${device.memory_kind === "unified" ? ", shared with the system" : ""}`],
    [own.index, device.cuda_index === null ? (device.visible ? DASH : "hidden from this server") : String(device.cuda_index)],
    ["slowdown temperature", withUnit(limits.slowdown_celsius, "°C")],
    ["default power limit", withUnit(limits.power_default_watts, "W")],
    [`max ${own.clock}`, withUnit(limits.sm_clock_mhz, "MHz")],
    ["PCIe link", link(sample?.pcie_generation, sample?.pcie_width), "pcie_generation"],
    ["max PCIe link", link(limits.pcie_generation, limits.pcie_width)],
    ["slot's PCIe link", link(limits.pcie_slot_generation, limits.pcie_slot_width)],
    ["persistence mode", mode(setup.persistence), "persistence"],
    ["ECC", mode(setup.ecc) + later, "ecc"],
    ["uncorrected ECC errors", known(sample?.ecc_uncorrected) ? String(sample?.ecc_uncorrected) : DASH, "ecc_uncorrected"],
    ["energy since the driver was loaded", energy(sample?.energy_joules), "energy_joules"],
  ];
  if (device.check) facts.push(["last check", `${device.check.text} (${dateOf(device.check.at)})`]);
  return (
    <section className="panel">
      <h2>Facts</h2>
      <dl className="facts">
        {facts.map(([name, value, field]) => (
          <div key={name}><dt>{name}</dt><dd>{value}{value === DASH && <span className="dim"> {why(field ?? "")}</span>}</dd></div>
        ))}
      </dl>
    </section>
  );
}

function Missing({ device }: { device: Device }) {
  const rows = Object.entries(device.missing);
  if (!rows.length || device.state !== "ok") return null; // of a silent one nothing is read at all
  return (
    <section className="panel">
      <h2>{count(rows.length, "value")} missing</h2>
      <dl className="facts">
        {rows.map(([name, reason]) => (
          <div key={name}><dt>{readingName(name, device.vendor)}</dt><dd>{reason}</dd></div>
        ))}
      </dl>
    </section>
  );
}
