/** How to sign in: a link wherever something is hidden, and the ways that the page behind it shows. */
import { useFeatures } from "../api/asking";
import { openCommand } from "../lib/access";
import { Command } from "./Command";
import { Notice } from "./Notice";

/** "Sign in to see names and commands": one link; the footer has the command, once per page. */
export function SignInLink({ to }: { to: string }) {
  return <><a href="#/sign-in">Sign in</a> {to}</>;
}

export function SignInWays() {
  if (useFeatures()["demo"] === true) return <p>This is a demo: <Command text={openCommand()} /> in a terminal of the account that started it signs you in as erik, one of its people. So does the link that <code>andon demo</code> printed, once.</p>;
  return (
    <dl className="ways">
      <dt>In a browser on the server's machine</dt>
      <dd><Command text={openCommand()} /></dd>
      <dt>On a phone or another computer</dt>
      <dd>The server's owner: <b>sign in a phone</b>, at the bottom of a page where they are signed in. Everyone: <Command text={`${openCommand()} --qr`} /> <span className="dim">shows a code for the camera, in a terminal of the server's machine. It needs an address of this server that the phone can reach.</span></dd>
      <dt>A link to send to yourself</dt>
      <dd><Command text={`${openCommand()} --print`} /> <span className="dim">Whoever opens it first is signed in as you. It works once, within two minutes.</span></dd>
      <dt>From elsewhere, with the server's token</dt>
      <dd><Command text={`${openCommand()} --token-file FILE`} /></dd>
    </dl>
  );
}

/** In place of an empty list: whether there are any is not told. */
export function Unseen({ what, command }: { what: string; command: string }) {
  return (
    <Notice title={`Your ${what} are shown when you have signed in`}>
      <p>This server shows everyone their own {what}, and those of others only to root: nothing may be shown before you sign in.</p>
      <p><SignInLink to={`to see yours, or in a terminal:`} /> <Command text={command} /></p>
    </Notice>
  );
}
