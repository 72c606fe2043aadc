/** The pages of runs: the list, one run, several laid over each other. */
import { Details } from "./Details";
import { List } from "./List";
import { Overlay } from "./Overlay";

interface RunsProps {
  name: string | null;
  search: string;
  query: URLSearchParams;
}

export function RunsPages({ name, search, query }: RunsProps) {
  const ids = [...new Set((name ?? "").split(",").filter(Boolean))];
  if (ids.length === 0) return <List query={query} search={search} />;
  if (ids.length === 1) return <Details key={name} id={ids[0] as string} query={query} />;
  return <Overlay key={name} ids={ids} query={query} />;
}
