/** A lamp: its shape means the same as its colour. */
import { memo } from "react";
import type { Colour } from "../lib/lamps";

const SHAPES: Record<Colour, React.ReactNode> = {
  green: <circle cx="12" cy="12" r="9" />,
  ring: <><circle cx="12" cy="12" r="9" className="ring" /><circle cx="12" cy="12" r="3.5" /></>,
  amber: <path d="M12 2.2 23 21.4H1z" />,
  red: <path d="M8 2h8l6 6v8l-6 6H8l-6-6V8z" />,
  grey: <circle cx="12" cy="12" r="7.5" className="hollow" />,
  info: <><circle cx="12" cy="12" r="9.5" className="thin" /><path d="M10.7 10h2.6v7.5h-2.6zM10.7 6h2.6v2.6h-2.6z" /></>,
};

/** Marks a device that is held by a lease. */
export function Flag() {
  return <svg className="flag" viewBox="0 0 12 12" aria-hidden="true"><path d="M1 0h2v12H1zM3 1h8L8.5 4 11 7H3z" /></svg>;
}

/** Marks a device that is out of service. */
export function Cordon() {
  return <svg className="flag cordon" viewBox="0 0 12 12" aria-hidden="true"><path d="M6 0a6 6 0 1 0 0 12A6 6 0 0 0 6 0M1.6 6a4.4 4.4 0 0 1 7.1-3.5L2.5 8.7A4.4 4.4 0 0 1 1.6 6m1.9 3.6 6.1-6.1a4.4 4.4 0 0 1-6.1 6.1" /></svg>;
}

interface Props {
  colour: Colour;
  /** For screen readers, where there is no text beside it. */
  label?: string;
}

export const Lamp = memo(function Lamp({ colour, label }: Props) {
  const name = label ? { role: "img", "aria-label": label } : { "aria-hidden": true };
  return (
    <svg className={`lamp ${colour}`} viewBox="0 0 24 24" {...name}>
      {SHAPES[colour]}
    </svg>
  );
});
