/** Every process on a GPU and its user. */
import { useMemo } from "react";
import { useFeatures } from "../api/queries";
import type { Device, Process } from "../api/types";
import { openCommand, useTrusted } from "../lib/access";
import { count, DASH, duration, gib, percent } from "../lib/format";
import { deviceLink, leaseLink } from "../lib/router";
import { live, useLive } from "../live/store";
import { Command } from "../parts/Command";
import { Notice } from "../parts/Notice";
import { type Column, Table } from "../parts/Table";

interface Row {
  device: Device;
  process: Process;
  label: string;
  age: number | null;
}

const where = (process: Process) => process.container ?? process.job ?? null;

const COLUMNS: Column<Row>[] = [
  { name: "GPU", by: (r) => r.device.index, cell: (r) => <a href={deviceLink(r.device.uuid)}>{r.label}</a>, number: true },
  { name: "user", by: (r) => r.process.user, cell: (r) => r.process.user ?? DASH },
  { name: "program", by: (r) => r.process.name, cell: (r) => r.process.name ?? DASH },
  { name: "memory GiB", by: (r) => r.process.memory_bytes, cell: (r) => gib(r.process.memory_bytes), number: true },
  { name: "util", by: (r) => r.process.utilization_percent, cell: (r) => percent(r.process.utilization_percent), number: true },
  { name: "running", by: (r) => r.age, cell: (r) => (r.age === null ? DASH : duration(r.age)), number: true },
  { name: "pid", by: (r) => r.process.pid, cell: (r) => r.process.pid, number: true, wide: true },
  { name: "kind", by: (r) => r.process.kind, cell: (r) => r.process.kind, wide: true },
  { name: "lease", by: (r) => r.process.lease, cell: (r) => (r.process.lease ? <a href={leaseLink(r.process.lease)}>{r.process.lease}</a> : DASH), wide: true },
  { name: "container or job", by: (r) => where(r.process), cell: (r) => where(r.process) ?? DASH, wide: true },
  { name: "command", by: (r) => r.process.command, cell: (r) => <span className="cut">{r.process.command ?? DASH}</span>, wide: true },
];

export function ProcessesPage({ search }: { search: string }) {
  const snapshot = useLive((now) => now.snapshot);
  const old = useLive((now) => now.staleSeconds !== null);
  const trusted = useTrusted();
  const leases = useFeatures()["leases"] === true;
  const columns = useMemo(() => COLUMNS.filter((column) => leases || column.name !== "lease"), [leases]);
  const rows = useMemo(() => rowsOf(snapshot?.devices ?? [], snapshot?.at ?? 0, search), [snapshot, search]);
  const users = new Set(rows.map((row) => row.process.user)).size;
  if (!snapshot) return <p className="dim">Loading…</p>;
  return (
    <section className={old ? "old" : undefined}>
      <div className="page-head">
        <h1>Processes</h1>
        <p className="dim">{count(rows.length, "process").replace("processs", "processes")} by {count(users, "user")}</p>
        <Command text="andon ps --tree" />
      </div>
      {rows.length > 0 ? (
        <Table caption="processes" columns={columns} rows={rows} rowKey={(r) => `${r.device.uuid}-${r.process.pid}-${r.process.started}-${r.process.kind}`} sort="memory GiB" />
      ) : (
        <Notice title={search ? "No process matches" : "No GPU processes"}>
          <p>A process that starts on a GPU appears here within a second, with its user, memory, container and job.</p>
          <p><Command label="last night's processes" text="andon history --who --since 12h" /></p>
        </Notice>
      )}
      {!trusted && <p className="dim">Sign in to see your command lines: <Command text={openCommand()} /></p>}
    </section>
  );
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
      const texts = [`gpu ${device.label}`, process.user, process.name, process.command, String(process.pid), process.lease, where(process)];
      return texts.some((text) => text?.toLowerCase().includes(term));
    });
}
