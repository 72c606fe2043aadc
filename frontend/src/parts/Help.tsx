/** The help overlay: what the lamps mean, the keys, and the same by command. */
import { useEffect, useRef } from "react";
import { Command } from "./Command";
import { Lamp } from "./Lamp";

const KEYS: [string, string][] = [
  ["← → ↑ ↓", "move between GPUs; Enter opens one"],
  ["/", "search this page"],
  ["b  p  a  l  h", "Board, Processes, Alerts, Leases, Health"],
  ["t", "light or dark theme"],
  ["?", "this help; Esc closes it"],
];

export function Help({ open, onClose }: { open: boolean; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const close = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!open) {
      dialog.current?.close();
      return;
    }
    dialog.current?.showModal();
    close.current?.focus();
  }, [open]);
  return (
    <dialog ref={dialog} onCancel={onClose} onClose={onClose} aria-labelledby="help-title">
      <h2 id="help-title">How to read the board</h2>
      <ul className="legend">
        <li><Lamp colour="green" /> <b>circle</b> OK</li>
        <li><Lamp colour="amber" /> <b>triangle</b> Warning: needs attention; names who is affected</li>
        <li><Lamp colour="red" /> <b>octagon</b> Critical: lost or at risk</li>
        <li><Lamp colour="grey" /> <b>ring</b> No data: asleep, not responding or stale</li>
      </ul>
      <dl className="keys">
        {KEYS.map(([key, what]) => (
          <div key={key}><dt><kbd>{key}</kbd></dt><dd>{what}</dd></div>
        ))}
      </dl>
      <p>In a terminal: <Command text="andon" /> <Command text="andon why" /> <Command text="andon doctor" /></p>
      <p className="end"><button ref={close} type="button" onClick={onClose}>Close</button></p>
    </dialog>
  );
}
