/** One active alert, with its advice and what a person can do about it. */
import { useState } from "react";
import { send } from "../api/client";
import type { Alert, Silence } from "../api/types";
import { useSession } from "../api/queries";
import { openCommand, useMay, useTrusted } from "../lib/access";
import { useChange } from "../lib/change";
import { dateOf, duration, timeOf } from "../lib/format";
import type { Colour } from "../lib/lamps";
import { alertLink, deviceLink } from "../lib/router";
import { Command } from "./Command";
import { Lamp } from "./Lamp";

export const LEVELS: Record<string, Colour> = { critical: "red", warning: "amber", info: "green" };
const PAUSES: [string, number][] = [["1 h", 3_600], ["8 h", 28_800], ["1 d", 86_400]];
const NAME = "andon.name";

export function AlertRow({ alert, at, open }: { alert: Alert; at: number; open: boolean }) {
  const people = [...new Set(alert.affected.map((one) => one.user).filter(Boolean))].join(", ");
  const marks = [
    alert.state === "pending" && "pending",
    alert.no_data_since !== null && `no data for ${duration(at - alert.no_data_since)}`,
    alert.acknowledged && `acknowledged${alert.acknowledged.by ? ` by ${alert.acknowledged.by}` : ""}`,
    alert.silenced_until !== null && `silenced until ${timeOf(alert.silenced_until)}`,
    alert.inhibited_by && `part of ${alert.inhibited_by.split("@", 1)[0]}`,
  ].filter(Boolean);
  return (
    <li className={`alert ${alert.level} ${alert.acknowledged ? "seen" : ""}`} data-alert={alert.id}>
      <Lamp colour={LEVELS[alert.level] ?? "grey"} label={alert.level} />
      <div>
        <h2>{alert.message}</h2>
        <p className="dim">
          {alert.device === null ? alert.where : <a href={deviceLink(alert.subject)}>{alert.where}</a>}
          {` · ${alert.level} · for ${duration(at - alert.since)}`}
          {people && ` · ${people}`}
        </p>
        {marks.length > 0 && <p className="marks">{marks.map((mark) => <span key={String(mark)}>{mark}</span>)}</p>}
        <p>{alert.advice}</p>
        <Actions alert={alert} open={open} />
      </div>
    </li>
  );
}

/** One that lights no lamp: pending or informational. */
export function MinorRow({ alert, at }: { alert: Alert; at: number }) {
  return (
    <li className="minor">
      <Lamp colour={alert.state === "pending" ? "grey" : (LEVELS[alert.level] ?? "grey")} label={alert.level} />{" "}
      <a href={alertLink(alert.id)}>{alert.message}</a>{" "}
      <span className="dim">{alert.state === "pending" ? `${alert.level}, pending` : alert.level} · for {duration(at - alert.since)}</span>
    </li>
  );
}

function Actions({ alert, open }: { alert: Alert; open: boolean }) {
  const trusted = useTrusted();
  const typed = useSession()?.by_token === true; // else the server knows the person
  const mayUndo = useMay("unacknowledge", alert.acknowledged?.by);
  const change = useChange("alerts", "board");
  const [by, setBy] = useState(() => localStorage.getItem(NAME) ?? "");
  const path = `/api/alerts/${encodeURIComponent(alert.id)}/acknowledge`;
  const named = () => {
    localStorage.setItem(NAME, by);
    return { by, note: "" };
  };
  const acknowledge = () => change.mutate(() => send("POST", path, named()));
  const undo = () => change.mutate(() => send("DELETE", path));
  const silence = (seconds: number) => change.mutate(() => send("POST", "/api/silences", {
    rule: alert.rule, device: alert.device === null ? null : alert.subject, seconds, ...named(),
  }));
  return (
    <div className="actions">
      {trusted ? (
        <>
          {typed && <input value={by} onChange={(event) => setBy(event.target.value)} placeholder="your name" aria-label="your name" size={10} maxLength={60} />}
          {alert.acknowledged
            ? mayUndo && <button type="button" disabled={change.isPending} onClick={undo}>Unacknowledge</button>
            : <button type="button" className="main" disabled={change.isPending} onClick={acknowledge}>Acknowledge</button>}
          <span role="group" aria-label="silence" className="buttons">
            {PAUSES.map(([name, seconds]) => (
              <button key={seconds} type="button" disabled={change.isPending} onClick={() => silence(seconds)}>silence {name}</button>
            ))}
          </span>
        </>
      ) : (
        <span className="dim">read-only: run <Command text={openCommand()} /></span>
      )}
      {change.error && <span role="alert" className="wrong">{change.error.oneLine}</span>}
      <details open={open}>
        <summary>as commands</summary>
        <Command text={`andon alerts ack '${alert.id}'`} />
        <Command text={`andon alerts silence '${alert.id}' 2h`} />
        <Command text={`andon alerts show '${alert.id}'`} />
      </details>
    </div>
  );
}

export function SilenceRow({ silence }: { silence: Silence }) {
  const may = useMay("unsilence", silence.by);
  const change = useChange("alerts", "board");
  const what = [silence.rule ?? "every rule", silence.subject ?? "everywhere"].join(" · ");
  return (
    <li>
      {what} until {dateOf(silence.until)} {silence.by && <span className="dim">by {silence.by}</span>}{" "}
      {may && (
        <button type="button" disabled={change.isPending} onClick={() => change.mutate(() => send("DELETE", `/api/silences/${encodeURIComponent(silence.id)}`))}>
          Remove silence
        </button>
      )}{" "}
      <Command text={`andon alerts unsilence '${silence.id}'`} />
    </li>
  );
}
