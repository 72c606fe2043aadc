/** Notifications of the browser: shown while this tab is open, in front or not, once a click has asked for them. */
import { useEffect, useRef, useSyncExternalStore } from "react";
import { useAlerts, useJobs, useLeases } from "../api/ports";
import { useMe } from "../lib/me";
import { noticesBetween, type Seen } from "../lib/notices";

const WANTED = "andon.notify";
const TICK_MS = 30_000;
const listeners = new Set<() => void>();
const able = (): boolean => "Notification" in window && window.isSecureContext;

function state(): "on" | "off" | "denied" | "none" {
  if (!able()) return "none";
  if (Notification.permission === "denied") return "denied";
  return Notification.permission === "granted" && localStorage.getItem(WANTED) === "yes" ? "on" : "off";
}

function subscribe(changed: () => void): () => void {
  listeners.add(changed);
  window.addEventListener("storage", changed);
  return () => {
    listeners.delete(changed);
    window.removeEventListener("storage", changed);
  };
}

async function choose(on: boolean): Promise<void> {
  localStorage.setItem(WANTED, on ? "yes" : "no");
  if (on && Notification.permission === "default") await Notification.requestPermission();
  for (const listener of listeners) listener();
}

export function NotifyMe() {
  const now = useSyncExternalStore(subscribe, state);
  if (now === "none") return <p className="dim">This browser shows notifications only over https or on this machine.</p>;
  if (now === "denied") return <p className="dim">This browser does not let this page show notifications: allow them for this page in the browser's settings.</p>;
  return (
    <p>
      <button type="button" aria-pressed={now === "on"} onClick={() => void choose(now !== "on")}>{now === "on" ? "Do not notify me" : "Notify me"}</button>{" "}
      <span className="dim">In this browser, while a tab of the board is open: your jobs, alerts about your GPUs, and your reservations 15 minutes ahead.</span>
    </p>
  );
}

/** Shows what is new. Mounted on every page; draws nothing. */
export function Notifying() {
  return useSyncExternalStore(subscribe, state) === "on" ? <Watching /> : null;
}

function Watching() {
  const me = useMe();
  const jobs = useJobs((ask) => ask.list("", "jobs")).data?.jobs;
  const alerts = useAlerts((ask) => ask.latest(false)).data?.alerts;
  const reservations = useLeases((ask) => ask.all()).data?.reservations;
  const before = useRef<Seen | null>(null);
  const latest = useRef<() => void>(() => undefined);
  useEffect(() => {
    latest.current = () => {
      const now: Seen = { jobs, alerts, reservations, at: Date.now() / 1000 };
      if (before.current) for (const one of noticesBetween(before.current, now, me)) show(one);
      before.current = now;
    };
    latest.current();
  }, [jobs, alerts, reservations, me]);
  useEffect(() => {
    const timer = setInterval(() => latest.current(), TICK_MS);
    return () => clearInterval(timer);
  }, []);
  return null;
}

function show({ tag, title, body, href }: ReturnType<typeof noticesBetween>[number]): void {
  const shown = new Notification(title, { tag, body, icon: "/static/icon.svg" });
  shown.onclick = () => {
    window.focus();
    location.hash = href;
    shown.close();
  };
}
