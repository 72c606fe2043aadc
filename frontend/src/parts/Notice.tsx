/** A notice about something that is wrong or empty, with what to do. */
import type { ReactNode } from "react";
import type { Problem } from "../api/client";
import { Command } from "./Command";

interface Props {
  title: string;
  children?: ReactNode;
  tone?: "plain" | "bad";
  /** Whether it is the whole page. */
  whole?: boolean;
  /** For one that can be closed. */
  onClose?: (() => void) | undefined;
}

export function Notice({ title, children, tone = "plain", whole = false, onClose }: Props) {
  return (
    <section className={`notice ${tone}`}>
      {onClose && <button type="button" className="quiet close" onClick={onClose} aria-label="close this notice">✕</button>}
      {whole ? <h1>{title}</h1> : <h2>{title}</h2>}
      {children}
    </section>
  );
}

interface TroubleProps {
  problem: Problem;
  what: string;
  whole?: boolean;
  onClose?: () => void;
}

export function Trouble({ problem, what, whole = false, onClose }: TroubleProps) {
  return (
    <Notice title={what} tone="bad" whole={whole} onClose={onClose}>
      <p>{problem.reason}</p>
      {problem.hint && <Hint text={problem.hint} />}
    </Notice>
  );
}

/** A hint that ends with a command shows it as one, to be copied. */
function Hint({ text }: { text: string }) {
  const { words, command } = splitHint(text);
  return <p className="dim">{words}{command === "andon open" ? <a href="#/sign-in">how to sign in</a> : command && <Command text={command} />}</p>;
}

/** "for a new one: andon open" is words and a command. */
function splitHint(text: string): { words: string; command: string | null } {
  const found = /^(?:(.*): )?(andon [a-z].*)$/.exec(text);
  if (!found) return { words: text, command: null };
  return { words: found[1] ? `${found[1]}: ` : "", command: found[2] ?? null };
}
