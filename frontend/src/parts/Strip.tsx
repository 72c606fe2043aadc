/** Under the headline: which GPUs are free, what all of them do together, and the host's own values. */
import type { Device, Snapshot } from "../api/types";
import type { Judged } from "../lib/judged";
import { deviceLink } from "../lib/router";
import { hostLine, totals } from "../lib/totals";
import { live } from "../live/store";

const MOST_NAMED = 16;

/** "free: GPU 4, 6", as `andon status` says it. */
export function Free({ devices }: { devices: Device[] }) {
  if (devices.length > MOST_NAMED) return <>free: <b>{devices.length} GPUs</b></>;
  return (
    <>free: <b>{devices.length ? "GPU " : "none"}{devices.map((one, place) => (
      <span key={one.uuid}>{place > 0 && ", "}<a href={deviceLink(one.uuid)} aria-label={`GPU ${live.label(one.uuid)}, free`}>{live.label(one.uuid)}</a></span>
    ))}</b></>
  );
}

export function Strip({ snapshot, judged, old }: { snapshot: Snapshot; judged: Judged; old: boolean }) {
  const found = totals(snapshot, judged.verdicts);
  const host = hostLine(snapshot.host);
  return (
    <div className={`totals${old ? " old" : ""}`}>
      {snapshot.devices.length > 0 && (
        <ul className="strip" aria-label="GPUs">
          {found.free && (
            <li className={found.free.length ? "free" : "none"}><Free devices={found.free} /></li>
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
