/** Who holds a device: the user, the lease, its end and its share of the memory. */
import type { Holder } from "../api/types";
import { duration, gib, hourOf } from "../lib/format";
import { leaseLink } from "../lib/router";
import { Flag, Lamp } from "./Lamp";

export function HeldBy({ holders, at, links = false }: { holders: Holder[]; at: number; links?: boolean }) {
  return (
    <ul className="plain held-by">
      {holders.map((one, place) => (
        <li key={one.lease ?? place}>
          <span>
            <Flag /> <b>{one.user}</b>{" "}
            {one.lease && (links ? <a href={leaseLink(one.lease)}>{one.lease}</a> : one.lease)}
          </span>
          <span className="dim">{facts(one, at)}</span>
          {one.state !== "held" && <span className="state"><Lamp colour={one.state === "orphaned" ? "amber" : "red"} /> {one.state}</span>}
        </li>
      ))}
    </ul>
  );
}

function facts(one: Holder, at: number): string {
  const end = one.until === null ? null : `until ${hourOf(one.until, at)}, ${duration(one.until - at)} left${one.then ? `, then ${one.then}` : ""}`;
  const part = one.memory_bytes === null ? "exclusive" : `${gib(one.memory_bytes)}\u00a0GiB`;
  return [part, end].filter(Boolean).join(" · ");
}
