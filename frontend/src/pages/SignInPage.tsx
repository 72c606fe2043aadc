/** For everyone who may not see this node: one page for all addresses, with the command to sign in. */
import { sessionEnded } from "../api/client";
import { openCommand } from "../lib/access";
import { Command } from "../parts/Command";
import { Notice } from "../parts/Notice";

export function SignInPage() {
  return (
    <Notice title="Sign in to see this node" whole>
      {sessionEnded() && <p>Your session has ended.</p>}
      <p>This server shows its readings only to people who have signed in.</p>
      <p><Command label="on the server's machine" text={openCommand()} /></p>
      <p><Command label="from elsewhere, with its token" text={`${openCommand()} --token-file FILE`} /></p>
    </Notice>
  );
}
