/** What a person adds to a run: a pin, which lists it first, and a note. */
import { useState } from "react";
import { client } from "../../api/asking";
import { Problem, send } from "../../api/client";
import type { RunDetails } from "../../api/types";
import { useMay } from "../../lib/access";
import { Trouble } from "../../parts/Notice";
import { PINNED } from "./words";

export function Remarks({ run }: { run: RunDetails }) {
  const may = useMay("annotate", run.user);
  const [note, setNote] = useState<string | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const pinned = run.tags.includes(PINNED);
  const put = async (body: { pinned: boolean } | { note: string }) => {
    try {
      await send("PATCH", `/api/runs/${encodeURIComponent(run.id)}`, body);
      setNote(null);
      setProblem(null);
      await client.invalidateQueries();
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem(0, "the server is not responding", ""));
    }
  };
  const save = (event: React.FormEvent) => {
    event.preventDefault();
    void put({ note: note ?? "" });
  };
  if (!may) return run.note && <p className="run-note">{run.note}</p>;
  return (
    <>
      <form className="buttons run-note" onSubmit={save}>
        <button type="button" aria-pressed={pinned} onClick={() => void put({ pinned: !pinned })}>{pinned ? "pinned" : "pin"}</button>
        {note === null ? (
          <>
            {run.note && <span>{run.note}</span>}
            <button key="edit" type="button" onClick={() => setNote(run.note ?? "")}>{run.note ? "edit note" : "add note"}</button>
          </>
        ) : (
          <>
            <input autoFocus value={note} onChange={(event) => setNote(event.target.value)} aria-label="note on this run" size={40} maxLength={1000} />
            {/* A key of its own: the button that was clicked must not become the one that submits. */}
            <button key="save" type="submit" className="main">Save</button>
            <button type="button" onClick={() => setNote(null)}>Cancel</button>
          </>
        )}
      </form>
      {problem && <Trouble problem={problem} what="It was not saved" onClose={() => setProblem(null)} />}
    </>
  );
}
