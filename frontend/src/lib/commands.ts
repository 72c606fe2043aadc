/** Where a command of the board has to be typed: a board is often read through a tunnel. */
import { NODE } from "./node";

/** Commands that can ask this server from anywhere. */
const ANYWHERE = /^andon (?:status|watch|ps|who|free|devices|history|why|alerts|leases|reservations|release|open|lease extend|nodes)\b/;
/** Those that a hub answers for one of its nodes. */
const READS = /^andon (?:(?:status|watch|ps|who|free|history|why|leases|reservations|estimate)\b|(?:alerts|jobs)(?:$| show| rules| --))/;
const USUAL = /^http:\/\/(?:127\.0\.0\.1|localhost|\[::1\]):26366$/;

/** A word for a shell, quoted where it has to be. */
export function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

interface Located {
  text: string;
  /** "on node17:" where the command must be typed on the node itself. */
  place: string | null;
}

/** `below` is the node of a hub that the page is about: what changes it is typed there. */
export function located(command: string, origin: string, node: string | null, below: string | null = NODE): Located {
  if (below !== null && !command.startsWith("andon open")) {
    return READS.test(command) ? { text: `${command} --node ${below} --url ${origin}`, place: null } : { text: command, place: `on ${below}:` };
  }
  if (USUAL.test(origin) || command.includes(" --url ") || command.startsWith("http")) return { text: command, place: null };
  if (command === "andon" || ANYWHERE.test(command)) return { text: `${command} --url ${origin}`, place: null };
  return { text: command, place: node === null ? null : `on ${node}:` };
}
