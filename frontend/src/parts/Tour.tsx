/** Five sentences on the first page, for someone who sees a simulated lab for the first time; closed once, it stays closed. */
import { memo, useState } from "react";
import { useFeatures } from "../api/asking";
import "../styles/telling.css";

const SEEN = "andon.tour";

/** Where each page is, what it is called, and what it is for. */
const STEPS: [string, string, string][] = [
  ["#/", "A tile", " is a GPU: its lamp says how it is, the word beside it whether you can have it, and the sentence on top what somebody should do first."],
  ["#/charts?seconds=86400", "Charts", " draws the last day of every GPU: point at one to read all of them at that instant, and drag to look closer."],
  ["#/jobs", "Jobs", " shows what ran, runs and waits, on which GPU, how far it is and why it waits."],
  ["#/runs", "Runs", " keeps what each training used and reached: tick two or more to lay them over each other."],
  ["#/alerts", "Alerts", " says since when something is wrong, whose work it touches and what to do; somebody can take it on or silence it."],
];

export const Tour = memo(function Tour() {
  const demo = useFeatures()["demo"] === true;
  const [seen, setSeen] = useState(() => localStorage.getItem(SEEN) === "seen");
  const [step, setStep] = useState(0);
  if (!demo || seen) return null;
  const close = () => {
    localStorage.setItem(SEEN, "seen");
    setSeen(true);
  };
  const [place, name, rest] = STEPS[step] as [string, string, string];
  const last = step + 1 === STEPS.length;
  return (
    <aside className="tour" aria-label="a short tour" onKeyDown={(event) => event.key === "Escape" && (event.stopPropagation(), close())}>
      <p aria-live="polite"><b>{step + 1} of {STEPS.length}</b> <a href={place}>{name}</a>{rest}</p>
      <p className="buttons">
        {step > 0 && <button type="button" onClick={() => setStep(step - 1)}>Back</button>}
        <button type="button" onClick={last ? close : () => setStep(step + 1)}>{last ? "Done" : "Next"}</button>
        <button type="button" className="quiet" onClick={close}>close the tour</button>
      </p>
    </aside>
  );
});
