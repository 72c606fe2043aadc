/** On a page of a hub: what all of its nodes have of the same, with the node in a column; searched, filtered, sorted and paged by the hub. */
import { useHub, useItems, useNodes } from "../api/server";
import type { FleetItem, FleetItems } from "../api/types";
import { byName } from "../lib/fleet";
import { count, DASH, duration, gib, hourOf, percent, unbroken, words } from "../lib/format";
import { itemLink, placeOf } from "../lib/items";
import type { Colour } from "../lib/lamps";
import { keep, userLink, useRoute, withQuery } from "../lib/router";
import { gpusOf } from "../lib/week";
import { Lamp } from "./Lamp";
import { Loading } from "./Loading";
import { Trouble } from "./Notice";
import { type Column, type Order, Table } from "./Table";

type Key = "kind" | "state" | "node" | "GPUs" | "user" | "what" | "memory" | "util" | "since" | "until" | "detail";

interface Lines {
  kinds: string;
  /** One of them, and several. */
  one: string;
  many?: string;
  columns: Key[];
  titles?: Partial<Record<Key, string>>;
  brief?: boolean;
}

/** What each page asks for, what its lines are called, and which columns they have; of several the first is shown unless another is chosen. */
const PAGES: Record<string, Lines[]> = {
  alerts: [
    { kinds: "alert,silence", one: "active alert", columns: ["state", "node", "GPUs", "what", "since", "until", "user", "detail"], titles: { what: "alert" }, brief: true },
    { kinds: "ended", one: "ended alert", columns: ["state", "node", "GPUs", "what", "detail", "since", "until"], titles: { what: "alert", detail: "level", since: "began", until: "ended" }, brief: true },
  ],
  processes: [{ kinds: "process", one: "process", many: "processes", columns: ["node", "GPUs", "user", "what", "memory", "since", "detail"], titles: { what: "program" } }],
  leases: [
    { kinds: "lease", one: "lease", columns: ["node", "GPUs", "user", "what", "state", "util", "since", "until"], titles: { what: "for" } },
    { kinds: "waiting", one: "waiting request", columns: ["node", "what", "GPUs", "user", "memory", "since"], titles: { what: "place", since: "waiting" } },
    { kinds: "cordon", one: "GPU out of service", many: "GPUs out of service", columns: ["node", "GPUs", "what", "user", "since"], titles: { what: "why", user: "by" }, brief: true },
  ],
  jobs: [{ kinds: "job", one: "job", columns: ["state", "node", "what", "user", "GPUs", "since", "detail"], titles: { what: "job" } }],
  user: [{ kinds: "job,lease,waiting,process", one: "item", columns: ["kind", "state", "node", "GPUs", "what", "memory", "since"] }],
};
const PAGE = 100;
const COLOURS: Record<string, Colour> = { critical: "red", warning: "amber", info: "info", pending: "ring", silenced: "grey", silence: "grey", idle: "ring", unknown: "grey", resolved: "grey", cordoned: "grey", acknowledged: "grey", waiting: "grey", orphaned: "amber", unreadable: "red", running: "green", held: "green", failed: "red", lost: "red" };

/** `own`: whether the hub's own machine has something that follows below. */
export function OnNodes({ page, user = "", own: has = true }: { page: keyof typeof PAGES; user?: string; own?: boolean }) {
  return useHub() ? <Listed page={page} user={user} has={has} /> : null;
}

function Listed({ page, user, has }: { page: string; user: string; has: boolean }) {
  const { query } = useRoute();
  const all = PAGES[page] as Lines[];
  const lines = all.find((each) => each.kinds === query.get("show")) ?? (all[0] as Lines);
  const { kinds, one, columns } = lines;
  const from = Number(query.get("from")) || 0;
  const asked = new URLSearchParams({ kinds, limit: String(PAGE), offset: String(from), search: [query.get("q"), page === "jobs" && query.get("state") !== "active" && query.get("state")].filter(Boolean).join(" "), node: query.get("on") ?? "", user: user || (query.get("who") ?? ""), sort: query.get("by") ?? "" });
  const found = useItems(asked);
  const list = useNodes(false).data;
  const own = list?.own ?? "";
  const data = found.data;
  const put = (changes: Record<string, string>) => keep(withQuery(query, { from: "", ...changes }));
  const by = query.get("by") ?? "";
  const order: Order = { name: by.replace(/^-/, ""), down: by.startsWith("-") };
  return (
    <section className="on-nodes" aria-label="all nodes">
      <div className="ranges tools-of">
        <NodeChoice query={query} />
        {!user && <Choice title="user" value={query.get("who") ?? ""} all={data?.users.map((each) => each.user) ?? []} put={(who) => put({ who })} />}
        {all.length > 1 && (
          <span className="buttons" role="group" aria-label="show">
            {all.map((each) => <button key={each.kinds} type="button" aria-pressed={each === lines} onClick={() => put({ show: each === all[0] ? "" : each.kinds, by: "" })}>{data ? countText(data, each) : nameOf(each)}</button>)}
          </span>
        )}
        {data && <span role="status" className="dim">{sumText(data, lines, all.length > 1, list?.nodes.length ?? 0)}</span>}
      </div>
      {found.error && <Trouble problem={found.error} what="What the nodes have cannot be read now" />}
      {found.isPending && <Loading what="what the nodes have" />}
      {data && data.items.length > 0 && <Table caption={`${page} of all nodes`} columns={columns.filter((key) => filled(key, data)).map((key) => columnOf(key, lines, own, data.at))} rows={data.items} rowKey={(item) => `${item.kind} ${item.node} ${item.id} ${item.user ?? ""}`} order={order} onOrder={(next) => put({ by: `${next.down ? "-" : ""}${next.name}` })} sorted stacked />}
      {data && data.items.length === 0 && <p className="none-found">{query.get("q") || query.get("on") || query.get("who") ? `No ${one} matches.` : `No ${one} on any node that reports.`}</p>}
      {data && data.total > PAGE && (
        <p className="buttons pages">
          <button type="button" disabled={from === 0} onClick={() => put({ from: from > PAGE ? String(from - PAGE) : "" })}>◀ back</button>
          <span className="dim">{from + 1}–{Math.min(data.total, from + PAGE)} of {data.total}</span>
          <button type="button" disabled={from + PAGE >= data.total} onClick={() => put({ from: String(from + PAGE) })}>more ▶</button>
        </p>
      )}
      {data && data.silent.length > 0 && <p className="dim silent-nodes">Not known of {count(data.silent.length, "silent node")}: {data.silent.slice(0, 5).join(", ")}{data.silent.length > 5 && " …"}</p>}
      {has && <h2 className="own-node">On {own || "this machine"}, where this hub runs</h2>}
    </section>
  );
}

const nameOf = ({ one, many = `${one}s` }: Lines): string => many;
const countText = ({ counts }: FleetItems, lines: Lines): string => {
  const number = lines.kinds.split(",").reduce((sum, kind) => sum + (counts[kind] ?? 0), 0);
  return `${number} ${number === 1 ? lines.one : nameOf(lines)}`;
};

function sumText(found: FleetItems, lines: Lines, counted: boolean, nodes: number): string {
  const { unread } = found;
  const said = counted ? "on " : `${countText(found, lines)} on `;
  return said + (unread.length ? `${nodes - unread.length} of ${nodes} nodes; the others are being read` : count(nodes, "node"));
}

function Choice({ title, value, all, put }: { title: string; value: string; all: string[]; put: (value: string) => void }) {
  const known = value && !all.includes(value) ? [value, ...all] : all;
  return (
    <label className="choice">
      <span className="dim">{title}</span>
      <select value={value} onChange={(event) => put(event.target.value)}>
        <option value="">all</option>
        {known.map((each) => <option key={each}>{each}</option>)}
      </select>
    </label>
  );
}

/** Which node of a hub a page is narrowed to, in the address. */
export function NodeChoice({ query }: { query: URLSearchParams }) {
  const hub = useHub();
  const list = useNodes(false).data;
  if (!hub || !list?.nodes.length) return null;
  return <Choice title="node" value={query.get("on") ?? ""} all={list.nodes.map((row) => row.name).sort(byName)} put={(on) => keep(withQuery(query, { on, from: "", offset: "" }))} />;
}

const VALUES: Record<Key, (item: FleetItem) => unknown> = {
  kind: (item) => item.kind, state: (item) => item.state, node: (item) => item.node, GPUs: (item) => item.gpus.length || item.wants, user: (item) => item.user,
  what: (item) => item.title, memory: (item) => item.memory_bytes, util: (item) => item.utilization_percent, since: (item) => item.since, until: (item) => item.until, detail: (item) => item.detail,
};
const filled = (key: Key, data: FleetItems): boolean => data.items.some((item) => VALUES[key](item) != null);
const NUMBERS = new Set<Key>(["memory", "util", "since"]);
const WIDE = new Set<Key>(["detail", "until", "util"]);

function columnOf(key: Key, { titles = {}, brief = false }: Lines, own: string, at: number): Column<FleetItem> {
  return {
    name: key, title: titles[key] ?? (key === "since" ? "age" : key),
    ...(key !== "kind" && key !== "detail" && { by: () => null }),
    cell: (item) => cellOf(key, item, own, at), number: NUMBERS.has(key), wide: WIDE.has(key), rest: brief ? key === "what" : key === "detail",
  };
}

function cellOf(key: Key, item: FleetItem, own: string, at: number) {
  switch (key) {
    case "state": return <>{item.kind !== "process" && <Lamp colour={COLOURS[item.state] ?? "grey"} />} {words(item.state)}</>;
    case "node": return <a href={placeOf(item.node, own, "#/")}>{item.node}</a>;
    case "GPUs": return item.gpus.length ? <><span className="on-phone">GPU </span>{gpusOf(item.gpus).replace(/^GPUs? /, "")}</> : item.wants ? <>wants {item.wants}<span className="on-phone"> GPUs</span></> : DASH;
    case "user": return item.user ? <a href={userLink(item.user)}>{item.user}</a> : DASH;
    case "what": return <a href={itemLink(item, own)}>{unbroken(item.kind !== "job" ? item.title : item.title === "hidden" ? item.id : `${item.id} ${item.title}`)}</a>;
    case "memory": return item.memory_bytes === null ? DASH : `${gib(item.memory_bytes)}\u00a0GiB`;
    case "util": return percent(item.utilization_percent);
    case "since": return item.since === null ? DASH : item.kind === "ended" ? hourOf(item.since, at) : duration(Math.max(0, Math.round(at - item.since)));
    case "until": return item.until === null ? DASH : item.kind === "ended" ? hourOf(item.until, at) : item.until > at ? `${duration(Math.round(item.until - at))} left` : DASH;
    case "detail": return item.kind === "process" || item.kind === "lease" ? <code>{item.detail ?? DASH}</code> : unbroken(item.detail ?? DASH);
    default: return item[key];
  }
}
