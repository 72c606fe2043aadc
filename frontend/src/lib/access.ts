/** Whether this browser may change something. */
import { useSyncExternalStore } from "react";
import { onAccess, secret } from "../api/client";

export function useTrusted(): boolean {
  return useSyncExternalStore(onAccess, secret) !== null;
}
