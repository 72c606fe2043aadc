/** A button that shows the address of what is on the screen: to copy, and as a code for a phone's camera. */
import { useEffect, useRef, useState } from "react";
import { useFeatures } from "../api/asking";
import { openCommand, useMay } from "../lib/access";
import { Command, toClipboard } from "./Command";
import "../styles/telling.css";

/** Addresses that no other machine reaches. */
export const LOOPBACK = /^(localhost|127\.|\[::1\])/;

export function Share() {
  const [link, setLink] = useState<string | null>(null);
  return (
    <>
      <button type="button" className="quiet" onClick={() => setLink(location.href)}>share this view</button>
      {link && <Sheet link={link} onClose={() => setLink(null)} />}
    </>
  );
}

function Sheet({ link, onClose }: { link: string; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [copied, setCopied] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);
  const demo = useFeatures()["demo"] === true;
  const may = useMay("make_link");
  const near = LOOPBACK.test(location.host);
  const copy = () => void toClipboard(link).then(() => setCopied(true));
  return (
    <dialog ref={dialog} className="share" onClose={onClose} aria-labelledby="share-title">
      <h2 id="share-title">Share this view</h2>
      <div className="halves">
        {!near && <img src={`/api/qr?link=${encodeURIComponent(link)}`} alt="the address below as a QR code" width="200" height="200" />}
        <div>
          <p>{near ? "This address is this machine's alone: no phone reaches it. Serve on an address that it can reach (andon serve --host), or through a proxy." : "Point a phone's camera at the code, or send the address: it opens this page with this range, search and order."}</p>
          {may ? <p>It signs nobody in: for that there is <b>sign in a phone</b>, at the bottom of the page.</p> : !demo && <p>It signs nobody in. To sign a phone in, in a terminal of the server's machine: <Command text={`${openCommand()} --qr${near ? " --at URL" : ""}`} /></p>}
        </div>
      </div>
      <p className="address"><input readOnly value={link} aria-label="address of this view" onFocus={(event) => event.currentTarget.select()} /></p>
      <p className="end" role="status">{copied && "copied "}<button type="button" onClick={copy}>Copy</button> <button type="button" onClick={() => dialog.current?.close()}>Close</button></p>
    </dialog>
  );
}
