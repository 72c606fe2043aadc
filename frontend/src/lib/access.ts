/** Whether this browser is signed in. */
import { useSyncExternalStore } from "react";
import { onAccess, secret } from "../api/client";

export function useTrusted(): boolean {
  return useSyncExternalStore(onAccess, secret) !== null;
}
