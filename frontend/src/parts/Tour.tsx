/** Five sentences for someone who sees a simulated lab for the first time; closed once, it stays closed. */
import { memo, useState } from "react";
import { useFeatures } from "../api/asking";
import { go, useRoute } from "../lib/router";
import "../styles/telling.css";

const SEEN = "andon.tour";

const STEPS: [string, string][] = [
  ["#/", "A tile is a GPU: its lamp says how it is, the word beside it whether you can have it, and the sentence on top what somebody should do first."],
  ["#/charts?seconds=86400", "Charts draws the last day of every GPU: point at one to read all of them at that instant, and drag to look closer."],
  ["#/jobs", "Jobs shows what ran, runs and waits, on which GPU, how far it is and why it waits."],
  ["#/runs", "Runs keeps what each training used and reached: tick two or more to lay them over each other."],
  ["#/alerts", "Alerts says since when something is wrong, whose work it touches and what to do; somebody can take it on or silence it."],
];

export const Tour = memo(function Tour() {
  const demo = useFeatures()["demo"] === true;
  const wall = useRoute().page === "wall";
  const [seen, setSeen] = useState(() => localStorage.getItem(SEEN) === "seen");
  const [step, setStep] = useState(0);
  if (!demo || wall || seen) return null;
  const close = () => {
    localStorage.setItem(SEEN, "seen");
    setSeen(true);
  };
  const to = (next: number) => {
    if (next >= STEPS.length) return close();
    setStep(next);
    go(STEPS[next]?.[0] ?? "#/");
  };
  return (
    <aside className="tour" aria-label="a short tour" onKeyDown={(event) => event.key === "Escape" && (event.stopPropagation(), close())}>
      <p aria-live="polite"><b>{step + 1} of {STEPS.length}</b> {STEPS[step]?.[1]}</p>
      <p className="steps">
        <button type="button" className="quiet" onClick={close}>close the tour</button>
        {step > 0 && <button type="button" onClick={() => to(step - 1)}>Back</button>}
        <button type="button" className="next" onClick={() => to(step + 1)}>{step + 1 < STEPS.length ? "Next" : "Done"}</button>
      </p>
    </aside>
  );
});
