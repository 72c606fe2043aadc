/** Asks for what happened on the devices. */
import { useMemo } from "react";
import { useAlerts, useJobs, usePast } from "../api/ports";
import type { Alert } from "../api/types";
import { alertMarks, type ChartMark, jobMarks, noteMarks } from "./marks";

export interface Happened {
  alerts: Alert[];
  marks: ChartMark[];
}

export function useHappened(since: number, seconds: number): Happened {
  const step = Math.max(300, seconds / 4); // asked for again only as the range has moved on
  const from = Math.max(0, Math.floor(since / step) * step);
  const alerts = useAlerts((all) => all.since(from)).data?.alerts;
  const jobs = useJobs((all) => all.list("", "jobs")).data;
  const notes = usePast((past) => past.notes(null, { since: from, until: Math.ceil((since + seconds) / step + 1) * step })).data?.items;
  return useMemo(() => ({ alerts: alerts ?? [], marks: [...alertMarks(alerts ?? []), ...(jobs ? jobMarks(jobs) : []), ...noteMarks(notes ?? [])] }), [alerts, jobs, notes]);
}
