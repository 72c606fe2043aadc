/** What the palette offers, and what of it matches the words that were typed. */
import { LENGTHS } from "./holding";

export const KINDS = ["alert", "page", "node", "GPU", "job", "run", "lease", "process", "user", "action", "command"] as const;
type Kind = (typeof KINDS)[number];

export interface Entry {
  kind: Kind;
  title: string;
  detail?: string;
  /** What it is also found by. */
  words?: string;
  /** Where it leads, or what it does; what that returns is told. */
  act: string | (() => Promise<string | void> | string | void);
}

/** A duration in what was typed, as commands accept it, and the text without it: "lease 5 for 4 h". */
export function lengthIn(typed: string): { text: string; seconds: number; rest: string } {
  const usual = LENGTHS[1] as (typeof LENGTHS)[number];
  const found = /\b(?:for\s+)?(\d{1,3})\s*(min|m|h|d)\b(?=\D*$)/i.exec(typed);
  const each = { m: 60, h: 3_600, d: 86_400 }[found?.[2]?.[0]?.toLowerCase() as "m" | "h" | "d"];
  if (!found || !each || !Number(found[1])) return { ...usual, rest: typed };
  const rest = typed.slice(0, found.index) + typed.slice(found.index + found[0].length);
  return { text: `${found[1]}${found[2]?.[0]?.toLowerCase()}`, seconds: Number(found[1]) * each, rest };
}

/** Every word has to occur, a number or a letter or two at the start of a word; what begins with them comes first, then what has them at the start of a word. */
export function found(entries: Entry[], typed: string, most: number): Entry[] {
  const wanted = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const ranked: [number, Entry][] = [];
  for (const entry of entries) {
    const title = entry.title.toLowerCase();
    const all = `${title} ${entry.kind.toLowerCase()} ${entry.detail ?? ""} ${entry.words ?? ""}`.toLowerCase();
    if (!wanted.every((word) => (/^\d+$/.test(word) ? new RegExp(`(^|\\s)${word}(?![a-z])`).test(all) : ` ${all}`.includes(word.length > 2 ? word : ` ${word}`)))) continue;
    const begins = wanted.length > 0 && title.startsWith(wanted.join(" "));
    const starts = wanted.every((word) => ` ${title}`.includes(` ${word}`));
    ranked.push([(begins ? 0 : starts ? 1 : 2) * KINDS.length + KINDS.indexOf(entry.kind), entry]);
  }
  return ranked.sort((a, b) => a[0] - b[0]).slice(0, most).map(([, entry]) => entry);
}
