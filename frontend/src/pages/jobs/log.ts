/** Reads a job's output piece by piece. */
import { useEffect, useRef, useState } from "react";
import { get, type Problem } from "../../api/client";
import type { JobLog } from "../../api/types";
import { jobPath } from "../../lib/jobs";
import { NODE } from "../../lib/node";
import { grown } from "./words";

const FOLLOW_MS = 1_000;

/** The end of a job's output, which grows while the job runs. */
export function useLog(number: string, user: string, attempt: number, going: boolean, node: string | null = NODE): { text: string; cut: boolean; problem: Problem | null } {
  const [log, setLog] = useState<{ text: string; cut: boolean; end: number } | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const end = useRef<number | null>(null);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = new AbortController();
    const look = async () => {
      const after: Record<string, string> = end.current === null ? {} : { start: String(end.current) };
      try {
        const found = await get<JobLog>(jobPath(number, user, "/log", after), node, stop.signal);
        setProblem(null);
        end.current = found.end;
        setLog((before) => grown(before, found));
      } catch (error) {
        if (stop.signal.aborted) return;
        setProblem(error as Problem);
      }
      if (going) timer = setTimeout(look, FOLLOW_MS);
    };
    void look();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [number, user, attempt, going, node]);
  return { text: log?.text ?? "", cut: log?.cut ?? false, problem };
}
