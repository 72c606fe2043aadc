/** The list of runs: searched, filtered, in pages; some can be laid over each other. */
import { useEffect, useState } from "react";
import type { RunEntry, RunList } from "../../api/types";
import { useTrusted } from "../../lib/access";
import { DASH, energy, gib, hourOf, measured, percent } from "../../lib/format";
import { briefProgress, progressText } from "../../lib/progress";
import { go, keep, runLink } from "../../lib/router";
import { Command } from "../../parts/Command";
import { Loading } from "../../parts/Loading";
import { Notice, Trouble } from "../../parts/Notice";
import { SignInLink, Unseen } from "../../parts/SignIn";
import { type Column, Table } from "../../parts/Table";
import { useRuns } from "./queries";
import { FILTERS, MOST_OVERLAID, PAGE, requestOf, stateOf } from "./words";

const TYPING_MS = 250;
export function List({ query, search }: { query: URLSearchParams; search: string }) {
  const typed = useSettled(search);
  const found = useRuns(requestOf(query, typed));
  const trusted = useTrusted();
  const [chosen, setChosen] = useState<string[]>([]);
  const put = (name: string, value: string) => {
    const next = new URLSearchParams(query);
    if (name !== "offset") next.delete("offset");
    if (value) next.set(name, value);
    else next.delete(name);
    keep(next);
  };
  const list = found.data;
  const unseen = list !== undefined && list.shared && !trusted && list.all === 0;
  const toggle = (id: string) => setChosen((before) => (before.includes(id) ? before.filter((one) => one !== id) : [...before, id]));
  return (
    <section className="runs-list">
      <div className="page-head">
        <h1>Runs</h1>
        {list && !unseen && <p className="dim" role="status">{countText(list)}</p>}
        {list && FILTERS.map(([name, title, choices]) => (
          <Choice key={name} title={title} value={query.get(name) ?? ""} choices={list.choices[choices]} onChange={(value) => put(name, value)} />
        ))}
        <Command text="andon runs" />
      </div>
      {found.error && <Trouble problem={found.error} what="Runs cannot be read" />}
      {found.isPending && <Loading what="runs" />}
      {chosen.length > 0 && <Chosen ids={chosen} clear={() => setChosen([])} />}
      {list && list.items.length > 0 && (
        <Table caption="runs" columns={columnsOf(list.items, chosen, toggle)} rows={list.items} rowKey={(run) => run.id} stacked />
      )}
      {list?.items.length === 0 && (unseen ? <Unseen what="runs" command="andon runs" /> : list.all === 0 ? <Empty list={list} /> : (
        <Notice title="No run matches"><p><button type="button" onClick={() => keep(new URLSearchParams())}>Clear the filters</button></p></Notice>
      ))}
      {list && list.total > PAGE && <Pages list={list} put={put} />}
      {list && !unseen && <p className="dim whose">{list.whose}{list.note && ` · ${list.note}`}{!trusted && <> · <SignInLink to={list.shared ? "to see your own runs" : "to see your command lines"} /></>}</p>}
    </section>
  );
}

function countText(list: RunList): string {
  const runs = (count: number) => `${count} ${count === 1 ? "run" : "runs"}`;
  return list.total === list.all ? runs(list.all) : `${list.total} of ${runs(list.all)}`;
}

/** The text once it has not changed for a moment. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

function Choice({ title, value, choices, onChange }: { title: string; value: string; choices: { value: string; count: number }[]; onChange: (value: string) => void }) {
  const least = title === "tag" || title === "group" ? 1 : 2; // not every run has one
  if (!value && choices.length < least) return null;
  const known = choices.some((one) => one.value === value);
  return (
    <label className="choice">
      <span className="dim">{title}</span>
      <select value={value} aria-label={title} onChange={(event) => onChange(event.target.value)}>
        <option value="">any</option>
        {value && !known && <option value={value}>{value}</option>}
        {choices.map((one) => <option key={one.value} value={one.value}>{one.value.replaceAll("_", " ")} ({one.count})</option>)}
      </select>
    </label>
  );
}

function Chosen({ ids, clear }: { ids: string[]; clear: () => void }) {
  const many = ids.length > MOST_OVERLAID;
  return (
    <p className="chosen-runs" role="status">
      <button type="button" disabled={ids.length < 2 || many} onClick={() => go(runLink(...ids))}>Overlay {ids.length} runs</button>
      <button type="button" className="quiet" onClick={clear}>clear</button>
      <span className="dim">{many ? `at most ${MOST_OVERLAID} at once` : ids.length < 2 ? "choose at least one more" : "over the time since each began"}</span>
    </p>
  );
}

function Pages({ list, put }: { list: RunList; put: (name: string, value: string) => void }) {
  const last = Math.min(list.total, list.offset + list.items.length);
  return (
    <p className="buttons pages">
      <button type="button" disabled={list.offset === 0} onClick={() => put("offset", list.offset > PAGE ? String(list.offset - PAGE) : "")}>◀ later</button>
      <span className="dim">{list.offset + 1}–{last} of {list.total}</span>
      <button type="button" disabled={last >= list.total} onClick={() => put("offset", String(list.offset + PAGE))}>earlier ▶</button>
    </p>
  );
}

function Empty({ list }: { list: RunList }) {
  const whose = list.scope === "own" ? "You have no runs on this machine" : "No runs yet";
  return (
    <Notice title={whose}>
      <p>A run is recorded by putting andon in front of a command:</p>
      <p><Command text="andon run --name first -- python train.py" /></p>
      <p>or in Python, around a loop:</p>
      <p><Command text={'with andon.run("first") as run: …'} /></p>
      <p>Records from another folder or machine: <Command text="andon runs add DIR" /></p>
    </Notice>
  );
}

export function State({ run }: { run: Pick<RunEntry, "state"> }) {
  const { sign, word, tone } = stateOf(run.state);
  return <span className={`run-state ${tone}`}><span aria-hidden="true">{sign}</span> {word}</span>;
}

/** "2 × H200" with a mark where there is telemetry; N/A without a GPU. */
export function Gpus({ run }: { run: RunEntry }) {
  if (!run.gpus) return <span className="dim">N/A</span>;
  return (
    <>
      {run.gpus}{" "}
      {run.telemetry
        ? <span className="telemetry" role="img" aria-label="sampled" title="its GPUs were sampled">▁▅▂</span>
        : <span className="dim" title={run.telemetry_reason ?? ""}>N/A</span>}
    </>
  );
}

function columnsOf(rows: RunEntry[], chosen: string[], toggle: (id: string) => void): Column<RunEntry>[] {
  const any = (has: (run: RunEntry) => unknown) => rows.some((run) => has(run));
  const columns: (Column<RunEntry> | false)[] = [
    {
      name: "overlay",
      cell: (run) => <input type="checkbox" checked={chosen.includes(run.id)} disabled={!run.telemetry} onChange={() => toggle(run.id)} aria-label={`overlay ${run.name} ${run.id}`} />,
    },
    { name: "run", cell: (run) => <><a className="name" title={run.name} href={runLink(run.id)}>{run.name}</a> <code className="dim">{run.id}</code>{run.rank !== null && <span className="dim"> rank {run.rank}</span>}</> },
    { name: "state", cell: (run) => <State run={run} /> },
    any((run) => run.progress) && { name: "progress", cell: (run) => (run.progress ? <span title={progressText(run.progress, Date.now() / 1000)}>{briefProgress(run.progress, Date.now() / 1000)}</span> : DASH) },
    { name: "GPUs", cell: (run) => <Gpus run={run} /> },
    any((run) => run.user) && { name: "user", cell: (run) => run.user ?? DASH },
    { name: "began", cell: (run) => hourOf(run.began) },
    { name: "duration", cell: (run) => (run.duration_seconds === null ? DASH : measured(run.duration_seconds)), number: true },
    { name: "util", cell: (run) => percent(run.mean_utilization_percent), number: true },
    { name: "peak GiB", cell: (run) => gib(run.peak_memory_bytes), number: true, wide: true },
    { name: "energy", cell: (run) => energy(run.energy_joules, run.energy_source), number: true, wide: true },
    any((run) => run.group) && { name: "group", cell: (run) => run.group ?? DASH, wide: true },
    any((run) => run.tags.length) && { name: "tags", cell: (run) => run.tags.join(", ") || DASH, wide: true },
    any((run) => run.command) && { name: "command", cell: (run) => <code>{run.command ?? DASH}</code>, wide: true, rest: true },
  ];
  return columns.filter((column) => column !== false);
}
