/** Something that is wrong or empty, with what to do. */
import type { ReactNode } from "react";
import type { Problem } from "../api/client";

interface Props {
  title: string;
  children?: ReactNode;
  tone?: "plain" | "bad";
}

export function Notice({ title, children, tone = "plain" }: Props) {
  return (
    <section className={`notice ${tone}`}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

export function Trouble({ problem, what }: { problem: Problem; what: string }) {
  return (
    <Notice title={what} tone="bad">
      <p>{problem.reason}</p>
      {problem.hint && <p className="dim">{problem.hint}</p>}
    </Notice>
  );
}
