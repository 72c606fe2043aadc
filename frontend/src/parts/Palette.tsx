/** Finds anything by a few letters: GPUs, users, jobs, runs, alerts, pages, and what can be done. */
import { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "react";
import { refresh, useFeatures } from "../api/asking";
import { Problem, send } from "../api/client";
import { useAlerts, useJobs, useRuns } from "../api/ports";
import { useHub, useItems, useNodes, useSession } from "../api/server";
import type { Alert, LeaseGrant } from "../api/types";
import { useActs } from "../lib/access";
import { located } from "../lib/commands";
import { type Entry, found, lengthIn } from "../lib/finding";
import { unbroken, words } from "../lib/format";
import { entryOf, nodeEntries } from "../lib/items";
import { verdictText } from "../lib/holding";
import type { Judged } from "../lib/judged";
import { useMe } from "../lib/me";
import { linkOf, menu } from "../lib/menu";
import { userNamed } from "../lib/jobs";
import { alertLink, deviceLink, go, jobLink, leaseLink, runLink } from "../lib/router";
import { toggleTheme } from "../lib/theme";
import { live } from "../live/store";
import { toClipboard } from "./Command";
import "../styles/palette.css";

const MOST = 14;
const SOON_MS = 10_000;

interface Props {
  /** What was typed before it was drawn. */
  first: string;
  judged: Judged;
  onClose: () => void;
  onHelp: () => void;
  onFilter: (text: string) => void;
}

export function Palette({ first, judged, onClose, onHelp, onFilter }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  const [typed, setTyped] = useState(first);
  const [at, setAt] = useState(0);
  const [told, setTold] = useState("");
  const known = useEntries(judged, typed, onHelp);
  const rest = lengthIn(typed).rest;
  const filter: Entry = { kind: "action", title: `Show only “${typed.trim()}” on this page`, act: () => onFilter(typed.trim()) };
  const rows = [...found(known, found(known, typed, 1).length ? typed : rest, MOST), ...(typed.trim() ? [filter] : [])];
  const chosen = Math.min(at, rows.length - 1);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  useEffect(() => void document.getElementById(`${id}-${chosen}`)?.scrollIntoView({ block: "nearest" }), [id, chosen]);
  const close = () => dialog.current?.close();
  const take = async (entry: Entry | undefined) => {
    if (!entry) return;
    if (typeof entry.act === "string") {
      close();
      go(entry.act);
      return;
    }
    try {
      const said = await entry.act();
      if (said) setTold(said);
      else close();
    } catch (error) {
      setTold(error instanceof Problem ? [error.oneLine, ...error.details].join("; ") : "the server is not responding");
    }
  };
  const pressed = (event: React.KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    if (step !== undefined) setAt(Math.max(0, Math.min(rows.length - 1, chosen + step)));
    else if (event.key === "Enter") void take(rows[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    <dialog ref={dialog} className="palette" aria-label="find anything" onClose={onClose} onClick={(event) => event.target === dialog.current && close()}>
      <input
        role="combobox" aria-expanded={rows.length > 0} aria-controls={`${id}-list`} aria-activedescendant={rows.length ? `${id}-${chosen}` : undefined} aria-autocomplete="list"
        aria-label="find anything" placeholder="GPU, user, job, run, alert, page, or what to do" autoComplete="off" spellCheck={false} autoFocus
        value={typed} onChange={(event) => (setTyped(event.target.value), setAt(0), setTold(""))} onKeyDown={pressed}
      />
      <ul role="listbox" id={`${id}-list`} aria-label="found">
        {rows.map((entry, place) => (
          <li key={`${entry.kind} ${entry.title} ${place}`} role="option" id={`${id}-${place}`} aria-selected={place === chosen} onPointerMove={() => setAt(place)} onClick={() => void take(entry)}>
            <span className="kind">{entry.kind}</span>
            <span className="title">{entry.title}</span>
            {entry.detail && <span className="detail">{entry.detail}</span>}
          </li>
        ))}
      </ul>
      <p role="status" className="dim">{told || (typed ? `${rows.length} found` : "↑ ↓ choose · Enter opens · Esc closes · try “lease 1 for 2 h”")}</p>
    </dialog>
  );
}

/** Everything there is; of what has to be asked for, the latest. */
function useEntries(judged: Judged, typed: string, onHelp: () => void): Entry[] {
  const features = useFeatures();
  const alerts = useAlerts((all) => all.latest(false)).data?.alerts;
  const jobs = useJobs((all) => all.latest(SOON_MS)).data;
  const runs = useRuns((all) => all.latest({ fresh: SOON_MS })).data;
  const may = useWho();
  const elsewhere = useElsewhere(typed);
  const { text, seconds } = lengthIn(typed);
  return useMemo(() => [
    ...[...menu(features), { page: "health", title: "Health" }, { page: "wall", title: "Wall" }].map(({ page, title }): Entry => ({ kind: "page", title, act: linkOf(page) })),
    ...devices(judged, may, text, seconds),
    ...(alerts ?? []).filter((one) => one.state === "firing").flatMap((one) => ofAlert(one, may, text, seconds)),
    ...(jobs?.jobs ?? []).map((one): Entry => ({ kind: "job", title: `Job ${one.label} ${one.name}`, detail: `${one.state} · ${one.user}`, act: jobLink(one.label, jobs && userNamed(jobs, one)) })),
    ...(runs?.items ?? []).map((one): Entry => ({ kind: "run", title: `Run ${one.name || one.id}`, detail: [one.state, one.user].filter(Boolean).join(" · "), words: one.id, act: runLink(one.id) })),
    ...elsewhere,
    ...(elsewhere.length ? [] : users(judged)).map((name): Entry => ({ kind: "user", title: name, detail: "their GPUs, jobs and runs", act: `#/user/${encodeURIComponent(name)}` })),
    { kind: "action", title: "Copy a link to this view", act: async () => (await toClipboard(location.href), "copied") },
    { kind: "action", title: "Light or dark theme", words: "toggle", act: toggleTheme },
    { kind: "action", title: "Help: lamps, marks and keys", act: onHelp },
    ...["andon run -- python train.py", "andon submit --gpus 1 -- python train.py", "andon free", "andon doctor"].map(copying),
  ], [features, alerts, jobs, runs, elsewhere, judged, may, text, seconds, onHelp]);
}

const NONE: Entry[] = [];
const TYPING_MS = 200;
const FOUND = 20;

/** Of a hub: its nodes, their GPUs and people, and what of all of them matches what is typed; its runs are those of all. */
function useElsewhere(typed: string): Entry[] {
  const hub = useHub();
  const list = useNodes(false).data;
  const [settled, setSettled] = useState(typed);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(typed.trim()), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  const when = hub && settled.length > 1;
  const items = useItems(new URLSearchParams({ kinds: "alert,silence,job,lease,waiting,cordon,process", search: settled, limit: String(FOUND) }), when).data;
  const runs = useRuns((all) => ({ ...all.list(`limit=${FOUND}&search=${encodeURIComponent(settled)}`), when })).data;
  return useMemo(() => (!hub || !list ? NONE : [
    ...nodeEntries(list.nodes, list.own ?? "", typed),
    ...(when ? items?.items ?? [] : []).map((one) => entryOf(one, list.own ?? "")),
    ...(when ? runs?.items ?? [] : []).map((one): Entry => ({ kind: "run", title: `Run ${one.name || one.id}`, detail: [one.node, one.state, one.user].filter(Boolean).join(" · "), words: one.id, act: runLink(one.id) })),
  ]), [hub, list, typed, when, items, runs]);
}

/** Under which name this person acts; null if they cannot, and get the command instead. */
function useWho(): string | null {
  const trusted = useActs();
  const session = useSession();
  const me = useMe();
  if (!trusted || !session) return null;
  return session.by_token ? me || null : "";
}

function copying(command: string): Entry {
  const { text } = located(command, location.origin, null);
  return { kind: "command", title: `Copy ${text}`, act: async () => (await toClipboard(text), `copied: ${text}`) };
}

function devices(judged: Judged, who: string | null, text: string, seconds: number): Entry[] {
  return (live.get().snapshot?.devices ?? []).flatMap((device) => {
    const verdict = judged.verdicts.get(device.uuid);
    const lamp = judged.lamps.get(device.uuid);
    const people = [...device.processes.map((one) => `${one.user ?? ""} ${one.program ?? ""} ${one.pid}`), ...(judged.holders[device.uuid] ?? []).map((one) => one.user)];
    const rows: Entry[] = [{
      kind: "GPU", title: `GPU ${device.label}`, detail: [device.name, lamp?.colour === "green" ? null : lamp?.word, verdict && verdictText(verdict)].filter(Boolean).join(" · "),
      words: `${device.uuid} ${people.join(" ")}`, act: deviceLink(device.uuid),
    }];
    if (verdict?.kind === "free" && who !== null) {
      rows.push({
        kind: "action", title: `Lease GPU ${device.label} for ${text.replace(/\D/, " $&")}`, words: "take lease reserve hold",
        act: async () => {
          const lease = await send<LeaseGrant>("POST", "/api/leases", { devices: [device.uuid], gpus: 1, seconds, whom: who, command: "", unbalanced: true });
          await refresh("leases");
          go(leaseLink(lease.id ?? ""));
        },
      });
    } else if (verdict?.kind === "free") rows.push({ ...copying(`andon lease --devices ${device.label} --for ${text}`), words: `lease gpu ${device.label} for take` });
    for (const command of [`andon why ${device.label}`, `andon ps --device ${device.label}`, `andon history ${device.label}`]) rows.push({ ...copying(command), words: `gpu ${device.label}` });
    return rows;
  });
}

function ofAlert(alert: Alert, who: string | null, text: string, seconds: number): Entry[] {
  const message = unbroken(alert.message);
  const opened: Entry = { kind: "alert", title: message, detail: words(alert.rule), act: alertLink(alert.id) };
  if (who === null) return [opened, { ...copying(`andon alerts silence '${alert.id}' ${text}`), title: `Copy the command that silences: ${message}` }];
  const body = { by: who, note: "" };
  return [
    opened,
    {
      kind: "action", title: `Silence for ${text.replace(/\D/, " $&")}: ${message}`,
      act: async () => {
        await send("POST", "/api/silences", { rule: alert.rule, device: alert.device === null ? null : alert.subject, subject: alert.device === null ? alert.subject : null, seconds, ...body });
        await refresh("alerts");
      },
    },
    {
      kind: "action", title: `Acknowledge: ${message}`,
      act: async () => {
        await send("POST", `/api/alerts/${encodeURIComponent(alert.id)}/acknowledge`, body);
        await refresh("alerts");
      },
    },
  ];
}

function users(judged: Judged): string[] {
  const processes = (live.get().snapshot?.devices ?? []).flatMap((device) => device.processes.map((one) => one.user));
  const holders = Object.values(judged.holders).flat().map((one) => one.user);
  return [...new Set([...processes, ...holders].filter((name): name is string => Boolean(name)))].sort();
}
