/** The list of runs: searched, filtered, sorted, with columns to choose; drawn against each other, or laid over each other. */
import { useEffect, useMemo, useState } from "react";
import { useRuns } from "../../api/ports";
import type { RunEntry, RunList } from "../../api/types";
import { useTrusted } from "../../lib/access";
import { DASH, percent } from "../../lib/format";
import { briefProgress, progressText } from "../../lib/progress";
import { go, keep, orderIn, runLink, withQuery } from "../../lib/router";
import { Command } from "../../parts/Command";
import { Loading } from "../../parts/Loading";
import { Notice, Trouble } from "../../parts/Notice";
import { NodeChoice } from "../../parts/OnNodes";
import { SignInLink, Unseen } from "../../parts/SignIn";
import { type Column, Table } from "../../parts/Table";
import { chosenFields, conditionsOf, coursePaths, fieldsOf, meets, type RunField, textOf, variedParams } from "./fields";
import { useCourses } from "./queries";
import { Parallel } from "./Parallel";
import { Scatter } from "./Scatter";
import { FILTERS, MOST_OVERLAID, PAGE, PINNED, requestOf, stateOf, wantsAll } from "./words";

const TYPING_MS = 250;
const NO_RUNS: RunEntry[] = [];
export function List({ query, search }: { query: URLSearchParams; search: string }) {
  const typed = useSettled(search);
  const found = useRuns((runs) => runs.list(requestOf(query, typed)));
  const trusted = useTrusted();
  const put = (name: string, value: string) => keep(withQuery(query, name === "offset" ? { offset: value } : { offset: "", [name]: value }));
  const list = found.data;
  const items = list?.items ?? NO_RUNS;
  const fields = useMemo(() => fieldsOf(items), [items]);
  const group = query.get("group");
  const varied = useMemo(() => (group ? variedParams(items, fields) : []), [group, items, fields]);
  const shown = chosenFields(query.get("cols"), fields, varied);
  const where = conditionsOf(query.get("where") ?? "", fields);
  const meeting = where.conditions.length ? items.filter((run) => where.conditions.every((one) => meets(run, one))) : items;
  const rows = useMemo(() => [...meeting].sort((a, b) => Number(b.tags.includes(PINNED)) - Number(a.tags.includes(PINNED))), [items, query]);
  const courses = useCourses(rows.filter((run) => run.telemetry).map((run) => run.id), rows.some((run) => run.state === "running"));
  const chosen = (query.get("pick") ?? "").split(",").filter(Boolean);
  const unseen = list !== undefined && list.shared && !trusted && list.all === 0;
  const pick = (ids: string[]) => keep(withQuery(query, { pick: ids.join(",") }));
  const toggle = (id: string) => pick(chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen, id]);
  return (
    <section className={`runs-list${query.has("cols") ? "" : " usual"}`}>
      <div className="page-head">
        <h1>Runs</h1>
        {list && !unseen && <p className="dim" role="status">{countText(list)}</p>}
        {list && FILTERS.map(([name, title, choices]) => (
          <Choice key={name} title={title} value={query.get(name) ?? ""} choices={list.choices[choices]} onChange={(value) => put(name, value)} />
        ))}
        <NodeChoice query={query} />
        <Command text={varied.length ? `andon runs compare --group ${group}` : "andon runs"} />
      </div>
      {found.error && <Trouble problem={found.error} what="Runs cannot be read" />}
      {found.isPending && <Loading what="runs" />}
      {chosen.length > 0 && <Chosen ids={chosen} clear={() => pick([])} />}
      {list && list.all > 0 && (
        <div className="ranges tools-of">
          <input type="search" className="where" aria-label="filter by values" placeholder="filter: util<50 loss<2 user=ada" defaultValue={query.get("where") ?? ""} onChange={(event) => put("where", event.target.value)} />
          <Columns fields={fields} shown={shown} put={put} />
          <button type="button" aria-pressed={query.has("scatter")} onClick={() => put("scatter", query.has("scatter") ? "" : "1")}>scatter</button>
          {where.wrong ? <span className="wrong" role="status">{where.wrong}</span> : where.conditions.length > 0 && <span className="dim" role="status">{rows.length} of {items.length} match</span>}
          {wantsAll(query) && list.total > items.length && <span className="dim">of the latest {items.length} runs only; {list.total - items.length} older ones are not loaded</span>}
        </div>
      )}
      {varied.length > 0 && rows.length > 1 && <Parallel runs={rows} fields={fields} />}
      {query.has("scatter") && rows.length > 0 && <Scatter runs={rows} fields={fields} query={query} />}
      {rows.length > 0 && (
        <Table caption="runs" columns={columnsOf(shown, courses, chosen, toggle)} rows={rows} rowKey={(run) => run.id} stacked {...orderIn(query)} />
      )}
      {items.length > 0 && rows.length === 0 && <Notice title="No run meets the filter"><p>A run whose value is not known meets none.</p></Notice>}
      {list?.items.length === 0 && (unseen ? <Unseen what="runs" command="andon runs" /> : list.all === 0 ? <Empty list={list} /> : (
        <Notice title="No run matches"><p><button type="button" onClick={() => keep(new URLSearchParams())}>Clear the filters</button></p></Notice>
      ))}
      {list && list.total > PAGE && !wantsAll(query) && <Pages list={list} put={put} />}
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
    </Notice>
  );
}

export function State({ run }: { run: Pick<RunEntry, "state"> }) {
  const { sign, word, tone } = stateOf(run.state);
  return <span className={`run-state ${tone}`}><span aria-hidden="true">{sign}</span> {word}</span>;
}

/** "2 × H200", or that it had none. */
export function Gpus({ run }: { run: Pick<RunEntry, "gpus"> }) {
  return run.gpus ? <>{run.gpus}</> : <span className="dim">no GPU</span>;
}

/** Its utilisation from begin to end; or why there is none. */
function Course({ run, values }: { run: RunEntry; values: (number | null)[] | undefined }) {
  if (!run.telemetry) return <span className="dim" title={run.telemetry_reason ?? ""}>{run.gpus ? "not sampled" : DASH}</span>;
  if (!values) return <span className="course" />;
  const known = values.flatMap((value) => value ?? []);
  if (!known.length) return <span className="dim">not read</span>;
  const says = `utilisation over its time: from ${Math.min(...known).toFixed(0)} to ${Math.max(...known).toFixed(0)} %`;
  return (
    <svg className="course" viewBox="0 0 100 20" preserveAspectRatio="none" role="img" aria-label={says}>
      <title>{says}</title>
      <path className="base" d="M0 1H100M0 19H100" />
      {coursePaths(values).map((line) => <polygon key={`a${line}`} points={`${line.split(",")[0]},19 ${line} ${line.slice(line.lastIndexOf(" ") + 1).split(",")[0]},19`} />)}
      {coursePaths(values).map((line) => <polyline key={line} points={line} />)}
    </svg>
  );
}

function columnsOf(fields: RunField[], courses: Record<string, (number | null)[]>, chosen: string[], toggle: (id: string) => void): Column<RunEntry>[] {
  return [
    {
      name: "overlay", acts: true,
      cell: (run) => <input type="checkbox" checked={chosen.includes(run.id)} disabled={!run.telemetry && !Object.keys(run.last_values).length} onChange={() => toggle(run.id)} aria-label={`overlay ${run.name} ${run.id}`} />,
    },
    { name: "run", by: (run) => run.name, cell: (run) => <><a className="name" title={run.name} href={runLink(run.id)}>{run.name}</a> <code className="dim">{run.id}</code>{run.rank !== null && <span className="dim"> rank {run.rank}</span>}</> },
    { name: "utilisation", cell: (run) => <Course run={run} values={courses[run.id]} /> },
    ...fields.map((field): Column<RunEntry> => ({ name: field.title, by: field.of, cell: (run) => cellOf(field, run, courses[run.id]), number: field.number, wide: !NARROW.has(field.id), rest: field.id === "command" })),
  ];
}

const NARROW = new Set(["state", "GPUs", "user", "node", "began", "duration", "util"]); // shown on a phone

function cellOf(field: RunField, run: RunEntry, course: (number | null)[] = []) {
  const read = course.flatMap((value) => value ?? []);
  if (field.id === "util" && run.mean_utilization_percent === null && read.length) return <span title="so far">{percent(read.reduce((a, b) => a + b, 0) / read.length)}</span>;
  if (field.id === "state") return <><State run={run} />{run.progress && <span className="dim" title={progressText(run.progress, Date.now() / 1000)}> {briefProgress(run.progress, Date.now() / 1000).split(", ").map((part, place) => <span key={place} className={place ? "left" : undefined}>{place > 0 && ", "}{part}</span>)}</span>}</>;
  if (field.id === "GPUs") return <Gpus run={run} />;
  return field.id === "command" ? <code>{textOf(field, run)}</code> : textOf(field, run);
}

/** Which columns are shown, in the address. */
function Columns({ fields, shown, put }: { fields: RunField[]; shown: RunField[]; put: (name: string, value: string) => void }) {
  const toggle = (field: RunField) => put("cols", fields.filter((one) => (one === field ? !shown.includes(one) : shown.includes(one))).map((one) => one.id).join(","));
  return (
    <details className="columns-menu">
      <summary>columns</summary>
      <fieldset>
        <legend className="hidden">columns</legend>
        {fields.map((field) => <label key={field.id}><input type="checkbox" checked={shown.includes(field)} onChange={() => toggle(field)} /> {field.title}{field.id.startsWith("param:") && <span className="dim"> parameter</span>}{field.id.startsWith("value:") && <span className="dim"> logged</span>}</label>)}
        <button type="button" className="quiet" onClick={() => put("cols", "")}>as usual</button>
      </fieldset>
    </details>
  );
}
