/** The command that does the same, with a button to copy it. */
import { useState } from "react";

export function Command({ text, label }: { text: string; label?: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      fallback(text); // without TLS a browser offers the clipboard on loopback only
    }
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <span className="command">
      {label && <span className="dim">{label}</span>}
      <code>{text}</code>
      <button type="button" className="quiet" onClick={() => void copy()} aria-label={`copy: ${text}`}>
        {copied ? "copied" : "copy"}
      </button>
    </span>
  );
}

function fallback(text: string): void {
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}
