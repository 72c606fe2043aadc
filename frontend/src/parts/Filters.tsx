/** Shows some of the tiles: those that are free, this person's, or troubled. */
import { type Filter, FILTERS, passes, type Told } from "../lib/choosing";
import { keep } from "../lib/router";

interface Props {
  filter: Filter | null;
  all: Told[];
  me: string;
  /** How many match the search and the filter. */
  found: number;
  narrowed: boolean;
}

export function Filters({ filter, all, me, found, narrowed }: Props) {
  const known = all.some((told) => told.verdict);
  const set = (one: Filter) => {
    const query = new URLSearchParams(location.hash.split("?", 2)[1] ?? "");
    if (filter === one) query.delete("show");
    else query.set("show", one);
    keep(query);
  };
  return (
    <span className="filters">
      {narrowed && <span role="status" className="dim">{found ? `${found} of ${all.length} match` : "no GPU matches"}</span>}
      <span role="group" aria-label="show only" className="buttons">
        {FILTERS.filter((one) => (one === "free" ? known : one !== "mine" || me)).map((one) => (
          <button key={one} type="button" aria-pressed={filter === one} onClick={() => set(one)}>
            {one} {all.filter((told) => passes(told, one, me)).length}
          </button>
        ))}
      </span>
    </span>
  );
}
