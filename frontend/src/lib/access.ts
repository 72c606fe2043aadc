/** Who this browser is signed in as, and what that allows. */
import { useSyncExternalStore } from "react";
import { onAccess, secret } from "../api/client";
import { useSession } from "../api/server";
import { NODE } from "./node";

const USUAL = ["http://127.0.0.1:26366", "http://localhost:26366"];

export function useTrusted(): boolean {
  return useSyncExternalStore(onAccess, secret) !== null;
}

/** Whether something can be changed from here: a hub changes nothing on a node. */
export function useActs(): boolean {
  return useTrusted() && NODE === null;
}

/** Whether the person may do this to something that was done under a name; the server decides again. */
export function useMay(action: string, by?: string | null): boolean {
  const session = useSession();
  const far = session?.may[action] ?? "no";
  return useActs() && (far === "all" || (far === "own" && by !== undefined && by === session?.user));
}

/** The command that signs a browser in to the server of a page. */
export function openCommand(origin: string = location.origin): string {
  return USUAL.includes(origin) ? "andon open" : `andon open --url ${origin}`;
}
