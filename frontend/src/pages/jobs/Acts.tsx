/** What can be done to a job, by a button or its key; always asked first. Those who may not are told who may. */
import { useEffect, useState } from "react";
import { send } from "../../api/client";
import { useSession } from "../../api/server";
import type { Job, JobDone } from "../../api/types";
import { useActs } from "../../lib/access";
import { useChange } from "../../lib/change";
import { jobName, jobPath } from "../../lib/jobs";
import { NODE } from "../../lib/node";
import { Command } from "../../parts/Command";
import { Confirm } from "../../parts/Confirm";
import { Trouble } from "../../parts/Notice";
import { SignInLink } from "../../parts/SignIn";
import { type Act, actsOf } from "./words";

export function Acts({ job, user }: { job: Job; user: string }) {
  const [asking, setAsking] = useState<Act | null>(null);
  const [done, setDone] = useState<JobDone | null>(null);
  const change = useChange("jobs");
  const session = useSession();
  const may = useActs() && (!user || user === session?.user); // root looks at another's, and changes nothing
  const acts = may ? actsOf(job) : [];
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const one = may && actsOf(job).find((act) => act.key === event.key);
      const typing = (event.target as HTMLElement).closest?.("input, textarea, select, dialog[open]");
      if (!one || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      setAsking(one);
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, [job, may]);
  const act = (one: Act) => {
    setAsking(null);
    setDone(null);
    change.mutate(async () => setDone(await send<JobDone>("POST", jobPath(jobName(job), user, one.path, one.query))));
  };
  if (!may) return <p className="dim">{NODE !== null ? `A hub changes nothing on ${NODE}.` : user && user !== session?.user ? `Only ${user} can change it.` : <SignInLink to="to change it." />}</p>;
  return (
    <div className="job-acts">
      <p className="buttons">
        {acts.map((one) => <button key={one.button} type="button" className={one.path === "/cancel" ? "danger" : undefined} disabled={change.isPending} aria-keyshortcuts={one.key} onClick={() => setAsking(one)}>{one.button} <kbd aria-hidden="true">{one.key}</kbd></button>)}
      </p>
      {done && !change.error && <p className="dim" role="status">Job {job.label}: {done.outcome}{done.note && `; ${done.note}`}</p>}
      {change.error && <Trouble problem={change.error} what="The job could not be changed" />}
      {asking && (
        <Confirm title={asking.title} confirm={asking.confirm} keep={asking.keep} onConfirm={() => act(asking)} onCancel={() => setAsking(null)}>
          <p>{asking.says}</p>
          <p><Command label="as a command" text={asking.command} /></p>
        </Confirm>
      )}
    </div>
  );
}
