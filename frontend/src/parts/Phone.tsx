/** A sheet with a link that signs a phone in, once, and the same as a code for its camera; for the server's owner. */
import { useCallback, useEffect, useRef, useState } from "react";
import { Problem, send } from "../api/client";
import { useMay } from "../lib/access";
import { duration } from "../lib/format";
import { toClipboard } from "./Command";
import { LOOPBACK } from "./Share";
import "../styles/telling.css";

interface Link {
  address: string;
  /** Rows of dark (1) and light (0) squares. */
  qr: string[] | null;
  until: number;
}

export function Phone() {
  const [open, setOpen] = useState(false);
  if (!useMay("make_link")) return null;
  return (
    <>
      <button type="button" className="quiet" onClick={() => setOpen(true)}>sign in a phone</button>
      {open && <Sheet onClose={() => setOpen(false)} />}
    </>
  );
}

function Sheet({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [link, setLink] = useState<Link | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [now, setNow] = useState(Date.now);
  const [copied, setCopied] = useState(false);
  const make = useCallback(async () => {
    setCopied(false);
    try {
      const made = await send<{ code: string; expires_in_seconds: number; qr: string[] | null }>("POST", "/api/links", { address: location.origin });
      setNow(Date.now());
      setLink({ address: `${location.origin}/#code=${made.code}`, qr: made.qr, until: Date.now() + 1000 * made.expires_in_seconds });
      setProblem(null);
    } catch (error) {
      setProblem(error instanceof Problem ? error.oneLine : "the server is not responding");
    }
  }, []);
  useEffect(() => {
    dialog.current?.showModal();
    void make();
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [make]);
  const left = link && link.until > now ? link : null;
  const near = LOOPBACK.test(location.host);
  return (
    <dialog ref={dialog} className="share" onClose={onClose} aria-labelledby="phone-title">
      <h2 id="phone-title">Sign in a phone</h2>
      {problem && <p role="alert" className="wrong">{problem}</p>}
      {left && (
        <>
          <div className="halves">
            {!near && left.qr && <QrCode rows={left.qr} />}
            <div>
              <p>{near ? "This address is this machine's alone: another browser here can open the link, no phone reaches it. Serve on an address that it can reach (andon serve --host), or through a proxy." : "Point the phone's camera at the code, or send yourself the link."}</p>
              <p>Whoever opens it first is signed in as you, until this session ends. It works once, for another {duration((left.until - now) / 1000)}.</p>
            </div>
          </div>
          <p className="address"><input readOnly value={left.address} aria-label="sign-in link" onFocus={(event) => event.currentTarget.select()} /></p>
        </>
      )}
      {link && !left && <p>The link has expired.</p>}
      <p className="end" role="status">
        {copied && "copied "}
        {left ? <button type="button" onClick={() => void toClipboard(left.address).then(() => setCopied(true))}>Copy</button> : link && <button type="button" onClick={() => void make()}>New link</button>}{" "}
        <button type="button" onClick={() => dialog.current?.close()}>Close</button>
      </p>
    </dialog>
  );
}

/** Dark on white in both themes: cameras do not read the reverse. */
function QrCode({ rows }: { rows: string[] }) {
  const squares = rows.flatMap((row, y) => [...row.matchAll(/1+/g)].map((run) => `M${run.index} ${y}h${run[0].length}v1h-${run[0].length}z`));
  const size = rows.length + 8;
  return <svg className="qr" viewBox={`-4 -4 ${size} ${size}`} width="200" height="200" shapeRendering="crispEdges" role="img" aria-label="the link as a QR code"><path d={squares.join("")} /></svg>;
}
