/** Asks before something is stopped; Escape and the first button leave it as it is. Both buttons name what they do. */
import { type ReactNode, useEffect, useId, useRef } from "react";

interface Props {
  title: string;
  /** The label of the button that confirms. */
  confirm: string;
  /** Of the one that does not. */
  keep?: string | undefined;
  onConfirm: () => void;
  onCancel: () => void;
  children: ReactNode;
}

export function Confirm({ title, confirm, keep = "Keep it", onConfirm, onCancel, children }: Props) {
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
        <button ref={cancel} type="button" onClick={() => dialog.current?.close()}>{keep}</button>
        <button type="button" className="danger" onClick={onConfirm}>{confirm}</button>
      </p>
    </dialog>
  );
}
