/** The help overlay: what the lamps and marks mean, the keys, and the same by command. */
import { memo, useEffect, useRef } from "react";
import { Command } from "./Command";
import { Flag, Lamp } from "./Lamp";

const KEYS: [string, string][] = [
  ["← → ↑ ↓", "move between GPUs; Enter opens one"],
  ["/", "find anything: GPUs, people, jobs, runs, alerts, pages, what to do; or show only what matches"],
  ["b  c  p  a  l  r  h", "Board, Charts, Processes, Alerts, Leases, Runs, Health"],
  ["w", "the wall: dark and large, without a menu; Esc leaves it"],
  ["[  ]", "charts: earlier, later"],
  ["+  -  0  Esc", "charts: zoom in and out (around the cursor), reset"],
  ["← →  Home End", "on a focused chart: from reading to reading; Enter zooms in"],
  ["x  y  m  f  e  o", "on a chosen job: cancel, retry, move to other GPUs, to the front, to the end, hold or resume"],
  ["t", "light or dark theme"],
  ["?", "this help; Esc closes it"],
];

const MARKS: [string, string][] = [
  ["74 %", "the large number of a tile: utilisation, the share of time in which something ran on the GPU"],
  ["line", "utilisation over the last three hours, or five minutes while no more is known; hairlines at 0, 50 and 100 %"],
  ["bar", "memory in use, of all the GPU has; dashed if unknown"],
  ["tinted", "green: free, it can be taken now; grey: cordoned; amber or red below a filled head: in trouble"],
  ["flag", "held by a lease"],
  ["idle", "utilisation is 0 %; lightly used: up to 25 %; in use: more"],
  ["dashed line", "in a chart: the device's own limit; the shaded area goes from least to most, the line is the mean"],
  ["▲ ▶ ■", "below a chart: an alert, a job that started, one that ended; hatched: nothing was read"],
];

export const Help = memo(function Help({ open, onClose }: { open: boolean; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const close = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!open) {
      dialog.current?.close();
      return;
    }
    dialog.current?.showModal();
    close.current?.focus({ preventScroll: true });
    dialog.current?.scrollTo(0, 0); // the browser went to the first link, at its end
  }, [open]);
  const closed = () => void (dialog.current?.open || onClose()); // it may have been opened again since
  return (
    <dialog ref={dialog} className="help" onCancel={onClose} onClose={closed} aria-labelledby="help-title">
      <h2 id="help-title">How to read the board</h2>
      <div className="halves">
        <div>
          <ul className="legend">
            <li><Lamp colour="green" /> <b>circle</b> OK</li>
            <li><Lamp colour="amber" /> <b>triangle</b> Warning: needs attention; names who is affected</li>
            <li><Lamp colour="red" /> <b>octagon</b> Critical: lost or at risk</li>
            <li><Lamp colour="ring" /> <b>ring</b> Nobody has to act now: an alert may begin or is about to end, or all of them are handled</li>
            <li><Lamp colour="grey" /> <b>hollow circle</b> No data: asleep, not responding or stale</li>
          </ul>
          <h3>On the tiles and in the charts</h3>
          <dl className="keys marks-of">
            {MARKS.map(([mark, what]) => (
              <div key={mark}><dt>{mark === "flag" ? <><Flag />flag</> : mark}</dt><dd>{what}</dd></div>
            ))}
          </dl>
        </div>
        <div>
          <h3>Keys</h3>
          <dl className="keys">
            {KEYS.map(([key, what]) => (
              <div key={key}><dt><kbd>{key}</kbd></dt><dd>{what}</dd></div>
            ))}
          </dl>
          <p className="dim">Charts: drag to zoom, Back or a double click to return; Ctrl and the wheel, or two fingers, zoom too.</p>
        </div>
      </div>
      <p>For programs: <a href="/docs">the API</a>. In a terminal: <Command text="andon" /> <Command text="andon why" /> <Command text="andon doctor" /></p>
      <p>With a bug report, send this file: <Command text="andon status --json > bug.json" /></p>
      <p className="end"><button ref={close} type="button" onClick={onClose}>Close</button></p>
    </dialog>
  );
});
