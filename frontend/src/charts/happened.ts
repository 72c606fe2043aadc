/** Asks for what happened on the devices. */
import { useMemo } from "react";
import { useQuery } from "@tanstack/react-query";
import { get, type Problem } from "../api/client";
import { useFeatures } from "../api/queries";
import type { Alert, Alerts, JobPage } from "../api/types";
import { useTrusted } from "../lib/access";
import { alertMarks, type ChartMark, jobMarks } from "./marks";

export interface Happened {
  alerts: Alert[];
  marks: ChartMark[];
}

const MOST = 500;
const AGAIN_MS = 15_000;

export function useHappened(since: number, seconds: number): Happened {
  const features = useFeatures();
  const trusted = useTrusted();
  const step = Math.max(300, seconds / 4); // asked for again only as the range has moved on
  const from = Math.max(0, Math.floor(since / step) * step);
  const alerts = useQuery<Alerts, Problem>({
    queryKey: ["alerts", "since", from],
    queryFn: ({ signal }) => get<Alerts>(`/api/alerts?since=${from}&limit=${MOST}`, signal),
    enabled: features["alerts"] === true && since > 0,
    placeholderData: (before) => before,
  }).data?.alerts;
  const jobs = useQuery<JobPage, Problem>({
    queryKey: ["jobs", ""],
    queryFn: ({ signal }) => get<JobPage>(`/api/jobs?state=&limit=${MOST}`, signal),
    enabled: features["jobs"] === true && trusted,
    refetchInterval: AGAIN_MS,
  }).data;
  return useMemo(() => ({ alerts: alerts ?? [], marks: [...alertMarks(alerts ?? []), ...(jobs ? jobMarks(jobs) : [])] }), [alerts, jobs]);
}
