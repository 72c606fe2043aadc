/** What the form for a job asks for, as a command and as a request. */
import { quoted } from "../../lib/commands";

export interface Wanted {
  command: string;
  gpus: string;
  memory: string;
  name: string;
}

export const NOTHING: Wanted = { command: "", gpus: "1", memory: "", name: "" };
const FOR_A_SHELL = /[|&;<>()$`\\"'*?#~\n[\]{}!]/;

/** The same as a command for a terminal; `simulated` devices, if there are no others. */
export function submitCommand({ command, gpus, memory, name }: Wanted, simulated: number): string {
  const options = [simulated ? `--simulate ${simulated}` : "", `--gpus ${gpus || "1"}`, memory && `--memory ${quoted(memory)}`, name && `--name ${quoted(name)}`];
  return ["andon submit", ...options.filter(Boolean), "--", FOR_A_SHELL.test(command) ? `sh -c ${quoted(command)}` : command || "COMMAND"].join(" ");
}

/** And as a job file: a text is run by a shell, words are started as they are. */
export function submitBody({ command, gpus, memory, name }: Wanted, simulated: number): object {
  const run = FOR_A_SHELL.test(command) ? command : command.split(/\s+/);
  return { command: run, gpus: Number(gpus), ...(memory && { memory }), ...(name && { name }), ...(simulated && { simulate: simulated }) };
}
