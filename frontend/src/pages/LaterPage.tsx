/** Loads the later pages: right after the first one, so that they also open while the server is away. */
import { type ReactNode, useEffect, useState } from "react";
import { useLive } from "../live/store";
import { Loading } from "../parts/Loading";

type Pages = typeof import("./later");

let pages: Pages | null = null;

export async function loadLater(): Promise<void> {
  pages ??= await import("./later");
}

/** What was loaded; a part of a page waits for it, and tries again when the server is back. */
export function useLater(onFailure: (failure: unknown) => void = () => undefined): Pages | null {
  const isLive = useLive((now) => now.link.state === "live");
  const [, setLoaded] = useState(pages !== null);
  useEffect(() => {
    if (!pages) loadLater().then(() => setLoaded(true), onFailure);
  }, [isLive]);
  return pages;
}

export function LaterPage({ show }: { show: (pages: Pages) => ReactNode }) {
  const [failure, setFailure] = useState<unknown>(null);
  const found = useLater(setFailure);
  if (failure) throw failure; // the boundary says so, and tries again
  return found ? show(found) : <Loading />;
}
