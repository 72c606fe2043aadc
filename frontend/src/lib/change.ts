/** A change that a person requests: sent once, then what it affects is asked for again. */
import { useMutation } from "@tanstack/react-query";
import { refresh, type Subject } from "../api/asking";
import type { Problem } from "../api/client";

type Act = () => Promise<unknown>;

export function useChange(affected: Subject): ReturnType<typeof useMutation<unknown, Problem, Act>> {
  return useMutation<unknown, Problem, Act>({ mutationFn: (act) => act(), onSettled: () => refresh(affected) });
}
