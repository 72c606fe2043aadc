/** Below the charts of a device: what else changed in a chosen range, and the notes that people wrote on it. */
import { type FormEvent, useState } from "react";
import { client } from "../api/asking";
import { Problem, send } from "../api/client";
import { usePast } from "../api/ports";
import { useSession } from "../api/server";
import type { HistoryNote } from "../api/types";
import { useMay } from "../lib/access";
import { dateOf, duration, momentOf } from "../lib/format";
import { Trouble } from "../parts/Notice";
import type { Room } from "./room";

export function PastOf({ uuid, room }: { uuid: string; room: Room }) {
  const chosen = room.view.until !== null;
  const changes = usePast((past) => past.changes(uuid, room.asked, chosen));
  const notes = usePast((past) => past.notes(uuid, room.asked)).data?.items ?? [];
  const may = useMay("annotate", useSession()?.user);
  if (!chosen && !notes.length && !may) return null;
  const found = changes.data;
  return (
    <section className="past-of" aria-label="what else changed">
      {chosen && <h2>What else changed <span className="dim">against the {duration(room.view.seconds)} before</span></h2>}
      {chosen && changes.error && <Trouble problem={changes.error} what="It is not known what changed" />}
      {chosen && found && (found.changes.length ? (
        <ol className="plain">
          {found.changes.map((one) => <li key={`${one.at}${one.text}`}>{one.at !== null && <time className="dim">{momentOf(one.at).slice(11)} </time>}{one.text}</li>)}
        </ol>
      ) : <p className="dim">Nothing else that is recorded.</p>)}
      {chosen && found?.unknown.map((reason) => <p key={reason} className="dim">not compared: {reason}</p>)}
      {notes.length > 0 && <h2>Notes</h2>}
      <ul className="plain">{notes.map((one) => <Note key={one.id} note={one} />)}</ul>
      {may && <Writing uuid={uuid} room={room} />}
    </section>
  );
}

/** Sends a change; returns what went wrong. */
async function changed(method: "POST" | "DELETE", path: string, body?: object): Promise<Problem | null> {
  try {
    await send(method, path, body);
    await client.invalidateQueries();
    return null;
  } catch (error) {
    return error instanceof Problem ? error : new Problem(0, "the server is not responding", "");
  }
}

function Note({ note }: { note: HistoryNote }) {
  const [problem, setProblem] = useState<Problem | null>(null);
  const may = useMay("annotate", note.by || null);
  const remove = async () => setProblem(await changed("DELETE", `/api/history/notes/${encodeURIComponent(note.id)}`));
  const span = note.until > note.since ? ` (${duration(note.until - note.since)})` : "";
  return (
    <li>
      <time className="dim">{dateOf(note.since)}{span}</time> {note.text} <span className="dim">{note.by || "andon"}{note.device === null && ", on the node"}</span>
      {may && <button type="button" className="quiet" onClick={() => void remove()} aria-label={`remove the note ${note.text}`}>remove</button>}
      {problem && <Trouble problem={problem} what="It was not removed" onClose={() => setProblem(null)} />}
    </li>
  );
}

function Writing({ uuid, room }: { uuid: string; room: Room }) {
  const [text, setText] = useState("");
  const [whole, setWhole] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const save = async (event: FormEvent) => {
    event.preventDefault();
    const since = room.view.until === null ? room.now : room.since;
    const failed = await changed("POST", "/api/history/notes", { text, since, until: room.until, device: whole ? null : uuid });
    setProblem(failed);
    if (!failed) setText("");
  };
  return (
    <form className="buttons" onSubmit={(event) => void save(event)}>
      <input value={text} onChange={(event) => setText(event.target.value)} aria-label="note on this time" placeholder={room.view.until === null ? "note on now" : "note on this range"} size={40} maxLength={500} />
      <label><input type="checkbox" checked={whole} onChange={(event) => setWhole(event.target.checked)} /> on the whole node</label>
      <button type="submit" disabled={!text.trim()}>Add note</button>
      {problem && <Trouble problem={problem} what="It was not saved" onClose={() => setProblem(null)} />}
    </form>
  );
}
