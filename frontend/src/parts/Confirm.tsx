/** Asks before a job is stopped; Escape and the first button cancel. */
import { type ReactNode, useEffect, useId, useRef } from "react";

interface Props {
  title: string;
  /** The label of the button that confirms. */
  confirm: string;
  onConfirm: () => void;
  onCancel: () => void;
  children: ReactNode;
}

export function Confirm({ title, confirm, onConfirm, onCancel, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const cancel = useRef<HTMLButtonElement>(null);
  const id = useId();
  useEffect(() => {
    dialog.current?.showModal();
    cancel.current?.focus();
  }, []);
  return (
    <dialog ref={dialog} onClose={onCancel} aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      {children}
      <p className="end buttons">
        <button ref={cancel} type="button" onClick={() => dialog.current?.close()}>Cancel</button>
        <button type="button" className="danger" onClick={onConfirm}>{confirm}</button>
      </p>
    </dialog>
  );
}
