/** A notice about something that is wrong or empty, with what to do. */
import type { ReactNode } from "react";
import type { Problem } from "../api/client";

interface Props {
  title: string;
  children?: ReactNode;
  tone?: "plain" | "bad";
  /** Whether it is the whole page. */
  whole?: boolean;
}

export function Notice({ title, children, tone = "plain", whole = false }: Props) {
  return (
    <section className={`notice ${tone}`}>
      {whole ? <h1>{title}</h1> : <h2>{title}</h2>}
      {children}
    </section>
  );
}

export function Trouble({ problem, what, whole = false }: { problem: Problem; what: string; whole?: boolean }) {
  return (
    <Notice title={what} tone="bad" whole={whole}>
      <p>{problem.reason}</p>
      {problem.hint && <p className="dim">{problem.hint}</p>}
    </Notice>
  );
}
