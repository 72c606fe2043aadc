/** Reserves GPUs for a time, and changes or cancels what is reserved: a form, and the command that does the same. */
import { useEffect, useId, useRef, useState } from "react";
import { send } from "../api/client";
import type { Reservation } from "../api/types";
import { useActs, useMay } from "../lib/access";
import { useChange } from "../lib/change";
import { hourOf } from "../lib/format";
import { changeCommand, gpusOf, HOUR, localText, type Range, reserveCommand, timeOf } from "../lib/week";
import { Command } from "./Command";
import { Confirm } from "./Confirm";
import { SignInLink } from "./SignIn";
import { Field } from "./Take";

const HOURS = [1, 2, 4, 8, 12, 24, 48];
const PATH = "/api/reservations";
const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

interface Props {
  now: number;
  devices: { uuid: string; label: string }[];
  /** What is to be reserved, or a reservation. */
  range?: Range;
  reservation?: Reservation;
  onClose: () => void;
}

export function Reserve({ now, devices, range, reservation, onClose }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  const signedIn = useActs();
  const change = useChange("leases");
  const mayChange = useMay("reserve", reservation?.user ?? null);
  const mayCancel = useMay("unreserve", reservation?.user ?? null);
  const [chosen, setChosen] = useState(() => (range ? devices.slice(range.rows[0], range.rows[1] + 1) : devices.filter(({ uuid }) => reservation?.devices.some((one) => one.uuid === uuid))).map(({ uuid }) => uuid));
  const [begins, setBegins] = useState(range?.from ?? reservation?.begins ?? now);
  const [seconds, setSeconds] = useState(range ? range.to - range.from : reservation ? reservation.ends - reservation.begins : HOUR);
  const [name, setName] = useState("");
  const [weeks, setWeeks] = useState(1);
  const [asking, setAsking] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);
  const close = () => dialog.current?.close();
  const labels = devices.filter(({ uuid }) => chosen.includes(uuid)).map(({ label }) => label);
  const ends = begins + seconds;
  const toggle = (uuid: string) => setChosen((known) => (known.includes(uuid) ? known.filter((one) => one !== uuid) : [...known, uuid]));
  const moved = reservation !== undefined && begins !== reservation.begins;
  const act = (method: "POST" | "PATCH" | "DELETE", path: string, body?: unknown) => change.mutate(async () => (await send(method, path, body), close()));
  const submit = (event: React.FormEvent) => {
    event.preventDefault();
    if (reservation) act("PATCH", `${PATH}/${encodeURIComponent(reservation.id)}`, { ...(moved && { begins }), seconds });
    else act("POST", PATH, { devices: chosen, gpus: chosen.length, ...(begins > now && { begins }), seconds, name: name.trim(), ...(weeks > 1 && { weekly: weeks, zone: ZONE }) });
  };
  const foreign = reservation !== undefined && reservation.uid < 0; // Slurm's: it is shown, and changed there
  const may = reservation ? mayChange && !foreign : signedIn;
  const lengths = [...new Set([...HOURS.map((one) => one * HOUR), seconds])].sort((a, b) => a - b);
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby={id} className="take">
      <h2 id={id}>{reservation ? `Reservation ${reservation.id} of ${reservation.user}` : "Reserve GPUs"}</h2>
      {reservation && <p>{gpusOf(labels)} {timeOf(reservation, now)}{reservation.name && `: ${reservation.name}`}</p>}
      <form onSubmit={submit} className="fields">
        {!reservation && (
          <Field name="GPUs">
            <span className="buttons" role="group" aria-label="GPUs">
              {devices.map(({ uuid, label }) => <button key={uuid} type="button" aria-pressed={chosen.includes(uuid)} onClick={() => toggle(uuid)} aria-label={`GPU ${label}`}>{label}</button>)}
            </span>
          </Field>
        )}
        {(may || !reservation) && (
          <>
            <Field name="from">
              <input type="datetime-local" required aria-label="from" value={localText(begins)} onChange={({ target }) => target.value && setBegins(new Date(target.value).getTime() / 1000)} />
            </Field>
            <Field name="for how long">
              <span className="choice">
                <select aria-label="for how long" value={seconds} onChange={({ target }) => setSeconds(Number(target.value))}>
                  {lengths.map((one) => <option key={one} value={one}>{inHours(one)}</option>)}
                </select>
                <span className="dim">until {hourOf(ends, now)}</span>
              </span>
            </Field>
          </>
        )}
        {!reservation && (
          <Field name="weekly">
            <span className="choice">
              <input type="number" min={1} max={53} value={weeks} onChange={({ target }) => setWeeks(Math.min(Math.max(Number(target.value) || 1, 1), 53))} aria-label="for so many weeks" />
              <span className="dim">{weeks === 1 ? "once" : "weeks, at the same time"}</span>
            </span>
          </Field>
        )}
        {!reservation && <Field name="what for"><input value={name} onChange={({ target }) => setName(target.value)} aria-label="what for" maxLength={200} placeholder="optional, shown to everyone" /></Field>}
        {!reservation && <p className="dim">Others get a lease on these GPUs only if it ends before. What nobody uses after its start is given back.</p>}
        {reservation && may && <p><Command label="as a command" text={changeCommand(reservation.id, moved ? begins : null, begins, ends)} /></p>}
        {reservation && <p>{foreign ? <Command label="made and changed with Slurm" text="scontrol show reservation" /> : <Command label={may ? "or" : "as a command"} text={`andon reserve cancel ${reservation.id}`} />}</p>}
        {!reservation && labels.length > 0 && <p><Command label="as a command" text={reserveCommand(labels, begins, ends, name.trim(), now, weeks)} /></p>}
        {!signedIn && <p className="dim"><SignInLink to="to reserve here." /></p>}
        {change.error && <p role="alert" className="wrong">{[change.error.oneLine, ...change.error.details].join("; ")}</p>}
        <p className="end buttons">
          <button type="button" onClick={close}>Close</button>
          {reservation && mayCancel && !foreign && <button type="button" className="danger" disabled={change.isPending} onClick={() => setAsking(true)}>Cancel the reservation</button>}
          {may && <button type="submit" className="main" disabled={!chosen.length || change.isPending || (reservation && !moved && ends === reservation.ends)}>{reservation ? "Change the reservation" : `Reserve for ${inHours(seconds)}`}</button>}
        </p>
      </form>
      {asking && reservation && (
        <Confirm title={`Cancel reservation ${reservation.id} of ${reservation.user}?`} confirm="Cancel the reservation" onConfirm={() => (setAsking(false), act("DELETE", `${PATH}/${encodeURIComponent(reservation.id)}`))} onCancel={() => setAsking(false)}>
          <p>{gpusOf(labels)} {timeOf(reservation, now)}{reservation.name && `: ${reservation.name}`}. Anyone can take or reserve this time then.</p>
        </Confirm>
      )}
    </dialog>
  );
}

function inHours(seconds: number): string {
  return seconds % HOUR ? `${Math.round(seconds / 60)} min` : `${seconds / HOUR} h`;
}
