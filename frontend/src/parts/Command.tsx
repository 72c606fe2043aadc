/** The command that does the same, with a button to copy it. */
import { useState } from "react";
import { located } from "../lib/commands";
import { useLive } from "../live/store";

export function Command({ text: command, label }: { text: string; label?: string }) {
  const [copied, setCopied] = useState(false);
  const node = useLive((live) => live.snapshot?.node ?? null);
  const { text, place } = located(command, window.location.origin, node);
  const copy = async () => {
    await toClipboard(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <span className="command">
      {label && <span className="dim">{label}</span>}
      {place && <span className="dim">{place}</span>}
      <code>{text}</code>
      <button type="button" className="quiet" onClick={() => void copy()} aria-label={`copy: ${text}`} title="copy command">
        <svg viewBox="0 0 16 16" aria-hidden="true"><path d="M1.5 2.5h13v11h-13zM4.5 6 6.5 8l-2 2M8.5 10.5h3" /></svg>
        {copied && "copied"}
      </button>
    </span>
  );
}

export async function toClipboard(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    fallback(text); // without TLS a browser offers the clipboard on loopback only
  }
}

function fallback(text: string): void {
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}
