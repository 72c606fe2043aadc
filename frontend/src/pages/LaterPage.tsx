/** Loads the later pages: right after the first one, so that they also open while the server is away. */
import { type ReactNode, useEffect, useState } from "react";
import { Loading } from "../parts/Loading";

type Pages = typeof import("./later");

let pages: Pages | null = null;

export async function loadLater(): Promise<void> {
  pages ??= await import("./later");
}

export function LaterPage({ show }: { show: (pages: Pages) => ReactNode }) {
  const [failure, setFailure] = useState<unknown>(null);
  const [, setLoaded] = useState(pages !== null);
  useEffect(() => {
    if (!pages) loadLater().then(() => setLoaded(true), setFailure);
  }, []);
  if (failure) throw failure; // the boundary says so, and tries again
  return pages ? show(pages) : <Loading />;
}
