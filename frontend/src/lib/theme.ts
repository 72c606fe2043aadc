/** Light or dark: the system's setting unless the user chose one; paper is light. */
import { useSyncExternalStore } from "react";

export type Theme = "light" | "dark";

const KEY = "andon.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const paper = matchMedia("print");
const listeners = new Set<() => void>();

export function theme(): Theme {
  if (paper.matches) return "light";
  const chosen = document.documentElement.dataset["theme"];
  if (chosen === "light" || chosen === "dark") return chosen;
  return system.matches ? "dark" : "light";
}

export function toggleTheme(): void {
  const next: Theme = theme() === "dark" ? "light" : "dark";
  document.documentElement.dataset["theme"] = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // Storage may be blocked; then the choice lasts as long as the page.
  }
  for (const listener of listeners) listener();
}

export function useTheme(): Theme {
  return useSyncExternalStore((changed) => {
    listeners.add(changed);
    for (const one of [system, paper]) one.addEventListener("change", changed);
    return () => {
      listeners.delete(changed);
      for (const one of [system, paper]) one.removeEventListener("change", changed);
    };
  }, theme);
}
