/** Loads the pages of runs: right after the first page, so that they also open while the server is away. */
import { useEffect, useState } from "react";
import type { RunsPages, RunsProps } from "./runs";

let pages: typeof RunsPages | null = null;

export async function loadRuns(): Promise<void> {
  pages ??= (await import("./runs")).RunsPages;
}

export function RunsPage(props: RunsProps) {
  const [failure, setFailure] = useState<unknown>(null);
  const [, setLoaded] = useState(pages !== null);
  useEffect(() => {
    if (!pages) loadRuns().then(() => setLoaded(true), setFailure);
  }, []);
  if (failure) throw failure; // the boundary says so, and tries again
  const Pages = pages;
  return Pages ? <Pages {...props} /> : <p className="dim">Loading…</p>;
}
