/** A change that a person requests: sent once, then the queries it affects are refreshed. */
import { useMutation } from "@tanstack/react-query";
import type { Problem } from "../api/client";
import { client } from "../api/queries";

type Act = () => Promise<unknown>;

export function useChange(...affected: string[]): ReturnType<typeof useMutation<unknown, Problem, Act>> {
  return useMutation<unknown, Problem, Act>({
    mutationFn: (act) => act(),
    onSettled: () => Promise.all(affected.map((queryKey) => client.invalidateQueries({ queryKey: [queryKey] }))),
  });
}
