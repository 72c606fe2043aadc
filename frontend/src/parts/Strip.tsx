/** Under the headline: which GPUs are free, what all of them do together, and the host's own values. */
import type { Snapshot } from "../api/types";
import type { Judged } from "../lib/judged";
import { deviceLink } from "../lib/router";
import { hostLine, totals } from "../lib/totals";
import { live } from "../live/store";

const MOST_NAMED = 16;

export function Strip({ snapshot, judged, old }: { snapshot: Snapshot; judged: Judged; old: boolean }) {
  const found = totals(snapshot, judged.verdicts);
  const host = hostLine(snapshot.host);
  return (
    <div className={`totals${old ? " old" : ""}`}>
      {snapshot.devices.length > 0 && (
        <ul className="strip" aria-label="GPUs">
          {found.free && (
            <li className={found.free.length ? "free" : "none"}>
              <b>{found.free.length} free</b>
              {found.free.length > 0 && found.free.length <= MOST_NAMED && (
                <>: {found.free.map((one, place) => (
                  <span key={one.uuid}>{place > 0 && ", "}<a href={deviceLink(one.uuid)} aria-label={`GPU ${live.label(one.uuid)}, free`}>{live.label(one.uuid)}</a></span>
                ))}</>
              )}
            </li>
          )}
          {found.silent && <li><b>{found.silent}</b></li>}
          {found.busy && <li className="util"><b>{found.busy}</b> busy</li>}
          {found.memory && <li className="memory"><b>{found.memory}</b></li>}
          {found.power && <li className="power"><b>{found.power}</b></li>}
          {found.hottest && <li className="heat">hottest <b>{found.hottest}</b></li>}
        </ul>
      )}
      {host && <p className="host">Host: {host}</p>}
    </div>
  );
}
