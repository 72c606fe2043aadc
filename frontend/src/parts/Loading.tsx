/** What stands where something is still to come: loading, or that the server is away. */
import { useLive } from "../live/store";

export function Loading({ what = "this page" }: { what?: string }) {
  const away = useLive((now) => now.link.state === "away");
  return <p className="dim" role="status">{away ? `The server is away: ${what} cannot be loaded until it is back.` : "Loading…"}</p>;
}
