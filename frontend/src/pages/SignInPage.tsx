/** How to sign in. It is the only page for everyone who may not see this node. */
import { sessionEnded } from "../api/client";
import { useSession } from "../api/server";
import { useTrusted } from "../lib/access";
import { Notice } from "../parts/Notice";
import { SignInWays } from "../parts/SignIn";

export function SignInPage({ refused = false }: { refused?: boolean }) {
  const trusted = useTrusted();
  const session = useSession();
  if (trusted) return <Notice title={`You are signed in${session?.user ? ` as ${session.user}` : ""}`} whole><p><a href="#/">The board</a></p></Notice>;
  return (
    <Notice title={refused ? "Sign in to see this node" : "Sign in"} whole>
      {sessionEnded() && <p>Your session has ended.</p>}
      <p>{refused ? "This server shows its readings only to people who have signed in." : "You then see your own jobs, runs and commands, and can act on what is yours. There is no password: an account on the server's machine is enough."}</p>
      <SignInWays />
    </Notice>
  );
}
