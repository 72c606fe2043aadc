/** The board for a wall: dark, without a menu, as large as the screen allows, with a clock; the screen stays awake. */
import { useEffect, useState } from "react";
import type { Judged } from "../lib/judged";
import { go } from "../lib/router";
import { useLive, whole } from "../live/store";
import { Lamp } from "../parts/Lamp";
import { Strip } from "../parts/Strip";
import { Group } from "./BoardPage";
import { FleetWall, useFleetWall } from "./FleetWall";
import "../styles/wall.css";

const NOTHING = new URLSearchParams();

export function WallPage({ judged }: { judged: Judged }) {
  const { snapshot, staleSeconds, link } = useLive(whole);
  useDark();
  useAwake();
  useEffect(() => {
    const left = (event: KeyboardEvent) => event.key === "Escape" && go("#/");
    window.addEventListener("keydown", left);
    return () => window.removeEventListener("keydown", left);
  }, []);
  const old = staleSeconds !== null;
  const fleet = useFleetWall();
  const said = fleet ?? { colour: judged.colour, text: judged.headline };
  return (
    <div className={fleet ? "wall of-fleet" : "wall"}>
      <header className={`headline ${said.colour}`}>
        <Lamp colour={said.colour} />
        <h1>{said.text}</h1>
        <Clock />
      </header>
      {fleet ? <FleetWall rows={fleet.rows} /> : <Machine judged={judged} />}
      <footer>
        <span className={`link ${old ? "" : link.state}`}>{old ? "stale" : link.state === "away" ? "reconnecting" : link.state}</span>
        {snapshot && <span>{snapshot.node}</span>}
        {snapshot?.simulated && <span className="simulated">SIMULATED</span>}
        <a href="#/">leave (Esc)</a>
      </footer>
    </div>
  );
}

/** The machine's own GPUs. */
function Machine({ judged }: { judged: Judged }) {
  const { snapshot, staleSeconds } = useLive(whole);
  if (!snapshot) return null;
  return (
    <>
      <Strip snapshot={snapshot} judged={judged} old={staleSeconds !== null} />
      {snapshot.devices.length > 0 && <Group snapshot={snapshot} judged={judged} search="" query={NOTHING} old={staleSeconds !== null} few={false} bare />}
    </>
  );
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });

/** Drawn again when the minute changes, not more often. */
function Clock() {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setTimeout(() => setNow(Date.now()), 60_050 - (Date.now() % 60_000));
    return () => clearTimeout(timer);
  }, [now]);
  return <time className="clock" dateTime={new Date(now).toISOString()}><b>{clock.format(now)}</b> <span>{day.format(now)}</span></time>;
}

/** Dark whatever was chosen, which is not changed; read by charts and tiles alike. */
function useDark(): void {
  useEffect(() => {
    const root = document.documentElement;
    const chosen = root.dataset["theme"];
    root.dataset["theme"] = "dark";
    root.classList.add("on-wall");
    return () => {
      root.classList.remove("on-wall");
      if (chosen === undefined) delete root.dataset["theme"];
      else root.dataset["theme"] = chosen;
    };
  }, []);
}

/** Keeps the screen on where the browser can; it lets go when the page is hidden, so it is asked again. */
function useAwake(): void {
  useEffect(() => {
    let held: WakeLockSentinel | null = null;
    let over = false;
    const ask = async () => {
      if (document.visibilityState !== "visible" || !navigator.wakeLock || (held && !held.released)) return;
      try {
        held = await navigator.wakeLock.request("screen");
        if (over) void held.release();
      } catch {
        // A battery that saves, or a page without TLS beyond loopback: then the system's own setting counts.
      }
    };
    void ask();
    document.addEventListener("visibilitychange", ask);
    return () => {
      over = true;
      document.removeEventListener("visibilitychange", ask);
      void held?.release();
    };
  }, []);
}
