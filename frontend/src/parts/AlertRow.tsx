/** One alert: a line that opens in place and shows who is affected, what to do and what can be done. */
import { type ReactNode, useEffect, useRef, useState } from "react";
import { send } from "../api/client";
import { useAlerts } from "../api/ports";
import { useSession } from "../api/server";
import type { Alert, Silence } from "../api/types";
import { NODE } from "../lib/node";
import { useActs, useMay } from "../lib/access";
import { type Listed, marks, people, silenceText, stateOf } from "../lib/alerting";
import { useChange } from "../lib/change";
import { dateOf, unbroken } from "../lib/format";
import { setMe, useMe } from "../lib/me";
import { alertLink, deviceLink } from "../lib/router";
import { live } from "../live/store";
import { Command } from "./Command";
import { Lamp } from "./Lamp";
import { SignInLink } from "./SignIn";

const PAUSES: [string, number][] = [["1 h", 3_600], ["8 h", 28_800], ["1 d", 86_400]];

interface Props {
  entry: Listed;
  at: number;
  /** Whether it is open without having been clicked. */
  open: boolean;
  /** Whether the address names it. */
  named: boolean;
}

export function AlertRow({ entry, at, open, named }: Props) {
  const { alert, level, colour } = entry;
  const [shown, setShown] = useState<boolean | null>(null);
  const row = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (!named) return;
    setShown(true);
    row.current?.scrollIntoView({ block: "nearest" });
  }, [named]);
  const isOpen = shown ?? open;
  const toggle = () => {
    setShown(!isOpen);
    history.replaceState(null, "", isOpen ? "#/alerts" : alertLink(alert.id)); // a link to it, without leaving the list
  };
  const handled = marks(alert);
  const lit = alert.state === "firing";
  return (
    <li ref={row} className={`alert ${level} ${alert.state}${handled.length ? " handled" : ""}${isOpen ? " open" : ""}`} data-alert={alert.id}>
      <h2>
        <button type="button" className="line" aria-expanded={isOpen} onClick={toggle}>
          <Lamp colour={colour} label={lit ? level : alert.state} />
          <span className="message">{unbroken(alert.message)}</span>
          <span className="when">{[...(lit ? [] : [level]), ...stateOf(alert, at)].join(" · ")}</span>
        </button>
      </h2>
      {handled.length > 0 && <p className="handled-by">{handled.map((mark) => <span key={mark}>{mark}</span>)}</p>}
      {isOpen && <Details entry={entry} at={at} />}
    </li>
  );
}

function Details({ entry, at }: { entry: Listed; at: number }) {
  const { alert, related } = entry;
  const who = people(alert);
  const past = alert.state === "resolved";
  return (
    <div className="details">
      <dl className="facts">
        <Fact name="where">{alert.device === null ? alert.where : <a href={deviceLink(alert.subject)}>{alert.where}</a>}</Fact>
        <Fact name="began">{dateOf(alert.since)}</Fact>
        {past && alert.resolved !== null && <Fact name="ended">{dateOf(alert.resolved)}</Fact>}
        {who && <Fact name={past ? "affected" : "affects"}>{who}</Fact>}
        {related.length > 0 && (
          <Fact name="related">
            <ul className="plain">{related.map((one) => <li key={one.id}>{unbroken(one.message)} <span className="dim">{stateOf(one, at).join(" · ")}</span></li>)}</ul>
          </Fact>
        )}
        {alert.advice && <Fact name={past ? "what to do then" : "what to do"}>{unbroken(alert.advice)}</Fact>}
        {alert.notified > 0 && <Fact name="notified">{alert.notified === 1 ? "once" : `${alert.notified} times`}</Fact>}
      </dl>
      {!past && <Actions alert={alert} />}
    </div>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}

function Actions({ alert }: { alert: Alert }) {
  const trusted = useActs();
  const typed = useSession()?.by_token === true; // else the server knows the person
  const mayUndo = useMay("unacknowledge", alert.acknowledged?.by);
  const change = useChange("alerts");
  const me = useMe();
  const [by, setBy] = useState(me);
  const [note, setNote] = useState("");
  const path = `/api/alerts/${encodeURIComponent(alert.id)}/acknowledge`;
  const named = () => {
    if (typed) setMe(by);
    return { by: typed ? by.trim() : "", note: note.trim() };
  };
  const undo = () => change.mutate(() => send("DELETE", path));
  const acknowledge = (event: React.FormEvent) => {
    event.preventDefault();
    change.mutate(() => send("POST", path, named()));
  };
  const silence = (seconds: number) => change.mutate(() => send("POST", "/api/silences", {
    rule: alert.rule, device: alert.device === null ? null : alert.subject, subject: alert.device === null ? alert.subject : null, seconds, ...named(),
  }));
  const nameless = typed && !by.trim();
  return (
    <div className="actions">
      {trusted ? (
        <form onSubmit={acknowledge} className="buttons">
          {typed && <input required value={by} onChange={(event) => setBy(event.target.value)} placeholder="your name" aria-label="your name" size={10} maxLength={60} />}
          <input value={note} onChange={(event) => setNote(event.target.value)} placeholder="note" aria-label="note" size={16} maxLength={200} />
          {alert.acknowledged
            ? mayUndo && <button type="button" disabled={change.isPending} onClick={undo}>Unacknowledge</button>
            : <button type="submit" className="main" disabled={change.isPending || nameless} title={nameless ? "needs your name" : undefined}>Acknowledge</button>}
          <span role="group" aria-label="silence" className="buttons">
            {PAUSES.map(([name, seconds]) => (
              <button key={seconds} type="button" disabled={change.isPending || nameless} onClick={() => silence(seconds)}>silence {name}</button>
            ))}
          </span>
        </form>
      ) : (
        <span className="dim">{NODE === null ? <SignInLink to="to acknowledge or silence it" /> : `Acknowledged and silenced on ${NODE}, by these commands:`}</span>
      )}
      {change.error && <span role="alert" className="wrong">{change.error.oneLine}</span>}
      <details open={NODE !== null}>
        <summary>as commands</summary>
        <Command text={`andon alerts ack '${alert.id}'`} />
        <Command text={`andon alerts silence '${alert.id}' 2h`} />
        <Command text={`andon alerts show '${alert.id}'`} />
      </details>
    </div>
  );
}

export function Silences({ silences }: { silences: Silence[] }) {
  const rules = useAlerts((alerts) => alerts.rules()).data?.rules ?? [];
  const label = (uuid: string) => (live.device(uuid) ? `GPU ${live.label(uuid)}` : null);
  return <ul className="plain">{silences.map((one) => <SilenceRow key={one.id} silence={one} text={silenceText(one, rules, label)} />)}</ul>;
}

function SilenceRow({ silence, text }: { silence: Silence; text: string }) {
  const may = useMay("unsilence", silence.by);
  const change = useChange("alerts");
  return (
    <li>
      {text} {silence.by && <span className="dim">by {silence.by}{silence.note && `: ${silence.note}`}</span>}{" "}
      {may && (
        <button type="button" disabled={change.isPending} onClick={() => change.mutate(() => send("DELETE", `/api/silences/${encodeURIComponent(silence.id)}`))}>
          Remove silence
        </button>
      )}{" "}
      <Command text={`andon alerts unsilence '${silence.id}'`} />
    </li>
  );
}
