/** Every process on a GPU and its user. */
import { useMemo } from "react";
import { useFeatures } from "../api/asking";
import type { Device, Process } from "../api/types";
import { useHub } from "../api/server";
import { useTrusted } from "../lib/access";
import { count, DASH, duration, gib, known, percent } from "../lib/format";
import { deviceLink, keep, leaseLink, processLink, userLink } from "../lib/router";
import { live, useLive, useSilence } from "../live/store";
import { Command } from "../parts/Command";
import { Loading } from "../parts/Loading";
import { Notice } from "../parts/Notice";
import { OnNodes } from "../parts/OnNodes";
import { SignInLink } from "../parts/SignIn";
import { nobody } from "../parts/Users";
import { type Column, type Order, Table } from "../parts/Table";

interface Row {
  device: Device;
  process: Process;
  label: string;
  age: number | null;
}

const where = (process: Process) => process.container ?? process.job ?? null;

const COLUMNS: Column<Row>[] = [
  { name: "GPU", by: (r) => r.device.index, cell: (r) => <a href={deviceLink(r.device.uuid)}>{r.label}</a>, number: true },
  { name: "user", by: (r) => r.process.user, cell: (r) => (r.process.user ? <a href={userLink(r.process.user)}>{r.process.user}</a> : DASH) },
  { name: "program", by: (r) => r.process.program, cell: (r) => <a href={processLink(r.process)}>{r.process.program ?? `pid ${r.process.pid}`}</a> },
  { name: "memory GiB", by: (r) => r.process.memory_bytes, cell: (r) => gib(r.process.memory_bytes), number: true },
  { name: "util", by: (r) => r.process.utilization_percent, cell: (r) => percent(r.process.utilization_percent), number: true },
  { name: "running", by: (r) => r.age, cell: (r) => (r.age === null ? DASH : duration(r.age)), number: true },
  { name: "pid", by: (r) => r.process.pid, cell: (r) => r.process.pid, number: true, wide: true },
  { name: "kind", by: (r) => (r.process.kind === "compute" ? null : r.process.kind), cell: (r) => r.process.kind, wide: true },
  { name: "lease", by: (r) => r.process.lease, cell: (r) => (r.process.lease ? <a href={leaseLink(r.process.lease)}>{r.process.lease}</a> : DASH), wide: true },
  { name: "container or job", by: (r) => where(r.process), cell: (r) => where(r.process) ?? DASH, wide: true },
  { name: "command", by: (r) => r.process.command, cell: (r) => <code>{r.process.command ?? DASH}</code>, wide: true, rest: true },
];

const GROUPS: [string, string][] = [["", "none"], ["gpu", "GPU"], ["user", "user"]];

/** Sort and group are in the address, so that a reload or a link shows the same. */
function orderOf(query: URLSearchParams): Order {
  const text = query.get("sort") ?? "-memory GiB";
  return { name: text.replace(/^-/, ""), down: text.startsWith("-") };
}

export function ProcessesPage({ search, query }: { search: string; query: URLSearchParams }) {
  const snapshot = useLive((now) => now.snapshot);
  const old = useLive((now) => now.staleSeconds !== null);
  const silence = useSilence();
  const trusted = useTrusted();
  const leases = useFeatures()["leases"] === true;
  const rows = useMemo(() => rowsOf(snapshot?.devices ?? [], snapshot?.at ?? 0, search), [snapshot, search]);
  const filled = COLUMNS.filter((column) => (leases || column.name !== "lease") && rows.some((row) => column.by?.(row) != null));
  const names = filled.map((column) => column.name).join();
  const columns = useMemo(() => COLUMNS.filter((column) => names.split(",").includes(column.name)), [names]);
  const order = useMemo(() => orderOf(query), [query]);
  const by = query.get("group") ?? "";
  const group = useMemo(() => groupOf(by), [by]);
  const put = (name: string, value: string) => {
    const next = new URLSearchParams(query);
    if (value) next.set(name, value);
    else next.delete(name);
    keep(next);
  };
  const hub = useHub();
  const users = new Set(rows.map((row) => row.process.user)).size;
  if (!snapshot) return <Loading what="processes" />;
  return (
    <section className={old ? "old" : undefined}>
      <div className="page-head">
        <h1>Processes</h1>
        {silence === null && !hub && <p className="dim">{processes(rows.length)} by {count(users, "user")}</p>}
        {(!hub || rows.length > 0) && <span role="group" aria-label="group by" className="buttons">
          <span className="dim">group by</span>
          {GROUPS.map(([value, title]) => (
            <button key={value} type="button" aria-pressed={by === value} onClick={() => put("group", value)}>{title}</button>
          ))}
        </span>}
        <Command text="andon ps --tree" />
      </div>
      <OnNodes page="processes" own={rows.length > 0} />
      {rows.length > 0 ? (
        <Table
          caption="processes" columns={columns} rows={rows} rowKey={(r) => `${r.device.uuid}-${r.process.pid}-${r.process.started}-${r.process.kind}`}
          order={order} onOrder={(next) => put("sort", `${next.down ? "-" : ""}${next.name}`)} detail={(row) => <Whole row={row} />}
          {...(group ? { group } : {})}
        />
      ) : hub ? null : (
        silence !== null ? <Notice title={silence}><p>Who uses its GPUs now is not known.</p></Notice> : <Nothing devices={snapshot.devices} searched={search.trim() !== ""} />
      )}
      <Unlisted />
      {!trusted && rows.length > 0 && <p className="dim"><SignInLink to="to see the command lines of your own processes." /></p>}
    </section>
  );
}

/** Why none is listed: none matches, nobody has one, or that is not known of every GPU. */
function Nothing({ devices, searched }: { devices: Device[]; searched: boolean }) {
  if (searched && devices.some((one) => one.processes.length > 0)) return <Notice title="No process matches" />;
  const silent = devices.filter(isSilent);
  const where = silent.length === 0 ? "nobody uses a GPU now" : `nobody uses the ${count(devices.length - silent.length, "GPU")} that can be read; of ${count(silent.length, "other")} it is not known`;
  return (
    <Notice title={silent.length === 0 ? "No GPU processes" : "No processes are known"}>
      <p>Everyone's processes are shown here, signed in or not: {where}.</p>
      <p>A process that starts on a GPU appears here within a second, with its user, memory, container and job.</p>
      <p><Command label="last night's processes" text="andon history --who --since 12h" /></p>
    </Notice>
  );
}

/** Its processes are not known: their absence here is not "none". */
const isSilent = (one: Device) => one.state !== "ok" && one.state !== "asleep";

function Unlisted() {
  const silent = useLive((now) => now.snapshot?.devices)?.filter(isSilent) ?? [];
  return <>{silent.map((one) => <p key={one.uuid} className="unlisted">GPU {one.label}: {nobody(one).replace(/^N/, "n")}</p>)}</>;
}

/** The whole command, and what a narrow page has no column for. */
function Whole({ row }: { row: Row }) {
  const { process } = row;
  const facts = [
    `pid ${process.pid}`, process.kind, process.container, process.job, process.lease && `lease ${process.lease}`,
    process.name !== process.program && process.name,
  ].filter(Boolean);
  return (
    <>
      {process.command ? <Command text={process.command} /> : <span className="dim"><SignInLink to="to see your command lines" /></span>}
      <p className="dim">{facts.join(" · ")}</p>
    </>
  );
}

function groupOf(by: string): { of: (row: Row) => string; heading: (rows: Row[]) => React.ReactNode } | null {
  if (by === "gpu") return { of: (row) => row.label, heading: (rows) => <Heading rows={rows} title={`GPU ${rows[0]?.label}`} of="user" /> };
  if (by === "user") return { of: (row) => row.process.user ?? "?", heading: (rows) => <Heading rows={rows} title={rows[0]?.process.user ?? "unknown user"} of="GPU" /> };
  return null;
}

/** What a group adds up to. */
function Heading({ rows, title, of }: { rows: Row[]; title: string; of: "user" | "GPU" }) {
  const others = new Set(rows.map((row) => (of === "user" ? row.process.user : row.device.uuid))).size;
  return <>{title} <span className="dim">{processes(rows.length)} · {count(others, of)} · {memoryOf(rows)}</span></>;
}

function memoryOf(rows: Row[]): string {
  const read = rows.flatMap((row) => (known(row.process.memory_bytes) ? [row.process.memory_bytes] : []));
  if (!read.length) return "memory unknown";
  const least = read.length < rows.length ? "at least " : "";
  return `${least}${gib(read.reduce((a, b) => a + b, 0))}\u00a0GiB`;
}

function processes(number: number): string {
  return `${number} ${number === 1 ? "process" : "processes"}`;
}

function rowsOf(devices: Device[], at: number, search: string): Row[] {
  const term = search.trim().toLowerCase();
  return devices
    .flatMap((device) => device.processes.map((process) => ({
      device, process, label: live.label(device.uuid),
      age: process.started === null ? null : at - process.started,
    })))
    .filter(({ device, process }) => {
      if (!term) return true;
      const texts = [`gpu ${device.label}`, process.user, process.program, process.name, process.command, String(process.pid), process.lease, where(process)];
      return texts.some((text) => text?.toLowerCase().includes(term));
    });
}
