/** Loads the board again, once, when the server comes back with another one. */

const KEY = "andon.board";
const SCRIPT = /assets\/index-[\w-]+\.js/;
const TYPING_MS = 5_000;

/** The script that a page names; null for a page that was not built. */
export function scriptOf(page: string): string | null {
  return SCRIPT.exec(page)?.[0] ?? null;
}

export async function reloadIfUpgraded(): Promise<void> {
  const own = scriptOf(import.meta.url);
  const there = own && (await served());
  if (!there || there === own || sessionStorage.getItem(KEY) === there) return;
  if (isTyping()) {
    setTimeout(() => void reloadIfUpgraded(), TYPING_MS);
    return;
  }
  sessionStorage.setItem(KEY, there); // never twice for the same one
  location.reload();
}

async function served(): Promise<string | null> {
  try {
    const answer = await fetch("/", { cache: "no-store" });
    return answer.ok ? scriptOf(await answer.text()) : null;
  } catch {
    return null; // away again: the next return asks again
  }
}

/** What a person has begun is not thrown away. */
function isTyping(): boolean {
  const field = document.activeElement;
  const filled = (field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement) && field.value !== "";
  return filled || document.querySelector("dialog[open]") !== null;
}
