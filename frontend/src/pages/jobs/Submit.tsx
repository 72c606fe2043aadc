/** A form that queues a command, beside the command that does the same; the server refuses it as it refuses the request. */
import { useEffect, useId, useRef, useState } from "react";
import { send } from "../../api/client";
import { useActs } from "../../lib/access";
import { useChange } from "../../lib/change";
import { NODE } from "../../lib/node";
import { go, jobLink } from "../../lib/router";
import { live } from "../../live/store";
import { Command } from "../../parts/Command";
import { SignInLink } from "../../parts/SignIn";
import { Field } from "../../parts/Take";
import { NOTHING, submitBody, submitCommand, type Wanted } from "./wanted";

export function Submit() {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" className="main" onClick={() => setOpen(true)}>Submit a job…</button>
      {open && <Form onClose={() => setOpen(false)} />}
    </>
  );
}

function Form({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  const acts = useActs();
  const change = useChange("jobs");
  const [wanted, setWanted] = useState(NOTHING);
  useEffect(() => dialog.current?.showModal(), []);
  const { simulated, devices } = live.get().snapshot ?? { simulated: false, devices: [] };
  const trimmed = { ...wanted, command: wanted.command.trim(), memory: wanted.memory.trim(), name: wanted.name.trim() };
  const made = simulated ? devices.length : 0;
  const field = (name: keyof Wanted, more: React.InputHTMLAttributes<HTMLInputElement>) => (
    <input {...more} value={wanted[name]} aria-label={name} onChange={(event) => setWanted({ ...wanted, [name]: event.target.value })} />
  );
  const submit = (event: React.FormEvent) => {
    event.preventDefault();
    change.mutate(async () => {
      const { jobs } = await send<{ jobs: number[] }>("POST", "/api/jobs", submitBody(trimmed, made));
      dialog.current?.close();
      go(jobLink(String(jobs[0])));
    });
  };
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby={id} className="take">
      <h2 id={id}>Submit a job</h2>
      <form onSubmit={submit} className="fields">
        <Field name="command">{field("command", { required: true, autoFocus: true, placeholder: "python train.py" })}</Field>
        <Field name="GPUs">{field("gpus", { required: true, type: "number", min: 1, max: Math.max(1, devices.length) })}</Field>
        <Field name="memory">{field("memory", { placeholder: "20GiB per GPU, at least (optional)" })}</Field>
        <Field name="name">{field("name", { placeholder: "optional", maxLength: 60 })}</Field>
        <p><Command label="as a command" text={submitCommand(trimmed, made)} /></p>
        <p className="dim">{acts ? "From here it starts in the home folder of the server's user; the command in a terminal starts it in the folder that you are in." : NODE !== null ? `A hub submits nothing to ${NODE}: in a terminal there.` : <SignInLink to="to submit it here, or use the command." />}</p>
        {change.error && <p role="alert" className="wrong">Not submitted: {[change.error.reason, ...change.error.details].join("; ")}. The command above does it in a terminal.</p>}
        <p className="end buttons">
          <button type="button" onClick={() => dialog.current?.close()}>Submit nothing</button>
          {acts && <button type="submit" className="main" disabled={!trimmed.command || change.isPending}>{change.isPending ? "Submitting…" : "Submit the job"}</button>}
        </p>
      </form>
    </dialog>
  );
}
