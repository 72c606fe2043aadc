/** Asks once more before work ends; Escape and the first button leave everything as it is. */
import { type ReactNode, useEffect, useId, useRef } from "react";

interface Props {
  title: string;
  /** The button that does it. */
  act: string;
  onAct: () => void;
  onLeave: () => void;
  children: ReactNode;
}

export function Confirm({ title, act, onAct, onLeave, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const leave = useRef<HTMLButtonElement>(null);
  const id = useId();
  useEffect(() => {
    dialog.current?.showModal();
    leave.current?.focus();
  }, []);
  return (
    <dialog ref={dialog} onClose={onLeave} aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      {children}
      <p className="end buttons">
        <button ref={leave} type="button" onClick={() => dialog.current?.close()}>Keep it</button>
        <button type="button" className="danger" onClick={onAct}>{act}</button>
      </p>
    </dialog>
  );
}
