/** Where a command of the board has to be typed: a board is often read through a tunnel. */

/** Commands that can ask this server from anywhere. */
const ANYWHERE = /^andon (?:status|watch|ps|who|free|devices|history|why|alerts|leases|release|open|lease extend)\b/;
const USUAL = /^http:\/\/(?:127\.0\.0\.1|localhost|\[::1\]):26366$/;

export interface Located {
  text: string;
  /** "on node17:" where the command must be typed on the node itself. */
  place: string | null;
}

export function located(command: string, origin: string, node: string | null): Located {
  if (USUAL.test(origin) || command.includes(" --url ")) return { text: command, place: null };
  if (command === "andon" || ANYWHERE.test(command)) return { text: `${command} --url ${origin}`, place: null };
  return { text: command, place: node === null ? null : `on ${node}:` };
}
