/** What can be done to a job, by a button or its key; always asked first, and as a command for those who may not. */
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
import { type Act, actsOf } from "./words";

export function Acts({ job, user }: { job: Job; user: string }) {
  const [asking, setAsking] = useState<Act | null>(null);
  const [done, setDone] = useState<JobDone | null>(null);
  const change = useChange("jobs");
  const session = useSession();
  const may = useActs() && (!user || user === session?.user); // root looks at another's, and changes nothing
  const acts = actsOf(job);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const one = actsOf(job).find((act) => act.key === event.key);
      const typing = (event.target as HTMLElement).closest?.("input, textarea, select, dialog[open]");
      if (!one || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      setAsking(one);
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, [job]);
  const act = (one: Act) => {
    setAsking(null);
    setDone(null);
    if (may) change.mutate(async () => setDone(await send<JobDone>("POST", jobPath(jobName(job), user, one.path, one.query))));
  };
  return (
    <div className="job-acts">
      <p className="buttons">
        {acts.map((one) => <button key={one.button} type="button" className={one.path === "/cancel" ? "danger" : undefined} disabled={change.isPending} aria-keyshortcuts={one.key} onClick={() => setAsking(one)}>{one.button} <kbd aria-hidden="true">{one.key}</kbd></button>)}
      </p>
      {done && !change.error && <p className="dim" role="status">Job {job.label}: {done.outcome}{done.note && `; ${done.note}`}</p>}
      {change.error && <Trouble problem={change.error} what="The job could not be changed" />}
      {asking && (
        <Confirm title={asking.title} confirm={may ? asking.confirm : "Close"} onConfirm={() => act(asking)} onCancel={() => setAsking(null)}>
          <p>{asking.says}</p>
          {!may && <p>{NODE !== null ? `A hub changes nothing on ${NODE}; in a terminal there:` : user && user !== session?.user ? `Only ${user} can do this.` : <><a href="#/sign-in">Sign in</a> to do it here, or in a terminal:</>}</p>}
          <p><Command label={may ? "as a command" : ""} text={asking.command} /></p>
        </Confirm>
      )}
    </div>
  );
}
