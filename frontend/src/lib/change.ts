/** A change that a person asks for: sent once, and what it touches is asked for anew. */
import { useMutation } from "@tanstack/react-query";
import type { Problem } from "../api/client";
import { client } from "../api/queries";

type Act = () => Promise<unknown>;

export function useChange(...touches: string[]): ReturnType<typeof useMutation<unknown, Problem, Act>> {
  return useMutation<unknown, Problem, Act>({
    mutationFn: (act) => act(),
    onSettled: () => Promise.all(touches.map((queryKey) => client.invalidateQueries({ queryKey: [queryKey] }))),
  });
}
