/** The frame around every page: navigation, connection state and sign-in state. */
import { memo, useCallback, useEffect, useRef, useState } from "react";
import { type Problem, sessionEnded, signOut } from "./api/client";
import { openCommand, useTrusted } from "./lib/access";
import { badge } from "./lib/alerting";
import { useFeatures } from "./api/asking";
import { useAlerts } from "./api/ports";
import { useHub, useItems, useNodes, useSession } from "./api/server";
import { count, duration } from "./lib/format";
import { useJudged } from "./lib/judged";
import { linkOf, menu } from "./lib/menu";
import { below, FLEET, NODE } from "./lib/node";
import { go, keep, type Route, useRoute } from "./lib/router";
import { toggleTheme, useTheme } from "./lib/theme";
import { useLive } from "./live/store";
import { Boundary } from "./parts/Boundary";
import { Command } from "./parts/Command";
import { Help } from "./parts/Help";
import { Notice, Trouble } from "./parts/Notice";
import { Notifying } from "./parts/NotifyMe";
import { Phone } from "./parts/Phone";
import { Share } from "./parts/Share";
import { Tour } from "./parts/Tour";
import { BoardPage } from "./pages/BoardPage";
import { LaterPage, loadLater } from "./pages/LaterPage";
import { SignInPage } from "./pages/SignInPage";

/** Pages that belong to one of the menu. */
const PARTS: Record<string, string> = { device: "board", process: "processes", user: "processes" };
const KEYS: Record<string, string> = { b: "#/", c: "#/charts", p: "#/processes", a: "#/alerts", l: "#/leases", r: "#/runs", h: "#/health", w: "#/wall" };

export function App({ trouble }: { trouble: Problem | null }) {
  const route = useRoute();
  const judged = useJudged();
  const search = route.query.get("q") ?? "";
  const [help, setHelp] = useState(false);
  const [finding, setFinding] = useState<string | null>(null);
  const [closed, setClosed] = useState<Problem | null>(null);
  const refused = useSession()?.reads === false;
  const simulated = useLive((now) => now.snapshot?.simulated ?? false);
  const node = useLive((now) => now.snapshot?.node ?? "");
  const fleet = route.page === "fleet";
  const open = useCallback(() => setHelp(true), []);
  const shut = useCallback(() => setHelp(false), []);
  const find = useCallback((text: string) => setFinding((before) => (before ?? "") + text), []);
  useKeys(open, find, finding !== null);
  useEffect(() => {
    document.title = [simulated && "SIMULATED", fleet ? "Fleet" : judged.headline, node, "andon"].filter(Boolean).join(" · ");
  }, [simulated, judged.headline, node, fleet]);
  useEffect(() => {
    const icon = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
    if (icon) icon.href = `/static/icon${judged.colour === "green" ? "" : `-${judged.colour}`}.svg`;
  }, [judged.colour]);
  useFirstFleet();
  const unknown = useUnknownNode();
  const shown = useLive((_, store) => store.readings > 1); // what everyone waits for is not delayed by what comes later
  useEffect(() => void (shown && loadLater().catch(() => undefined)), [shown]);
  const palette = finding !== null && (
    <Boundary place="palette">
      <LaterPage show={({ Palette }) => <Palette first={finding} judged={judged} onClose={() => setFinding(null)} onHelp={open} onFilter={setSearch} />} />
    </Boundary>
  );
  if (route.page === "wall" && !refused) {
    return (
      <>
        {NODE !== null && <BelowHub name={NODE} />}
        <main id="main" tabIndex={-1}><LaterPage show={({ WallPage }) => <WallPage judged={judged} />} /></main>
        {palette}
      </>
    );
  }
  return (
    <>
      <a className="skip" href="#main" onClick={(event) => skip(event)}>skip to content</a>
      {NODE !== null && <BelowHub name={NODE} />}
      <Bar route={route} search={search} onHelp={open} onFind={find} simulated={simulated} />
      {!refused && !unknown && <Connection />}
      {route.page === "board" && <Tour />}
      <main id="main" tabIndex={-1}>
        {trouble && trouble !== closed && (
          <Trouble problem={trouble} what="This sign-in link no longer works" onClose={() => setClosed(trouble)} />
        )}
        {refused ? <SignInPage refused /> : unknown ? <Notice title={`This hub has no node ${NODE}`} whole><p>Those that it has: <a href={FLEET}>the fleet</a></p></Notice> : <Boundary place={`${route.page}/${route.name ?? ""}`}>
          <Page route={route} search={search} judged={judged} />
        </Boundary>}
      </main>
      <Foot here={refused || route.page === "sign-in"} live={!unknown} />
      {!refused && <Notifying />}
      <Help open={help} onClose={shut} />
      {palette}
    </>
  );
}

/** What is searched on this page is in its address: a link shares it. */
function setSearch(text: string): void {
  const query = new URLSearchParams(location.hash.split("?", 2)[1] ?? "");
  if (text) query.set("q", text);
  else query.delete("q");
  keep(query);
}

function skip(event: React.MouseEvent): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

interface BarProps {
  route: Route;
  search: string;
  onHelp: () => void;
  onFind: (text: string) => void;
  simulated: boolean;
}

/** The frame is not drawn again with every reading: only what it shows itself. */
const Bar = memo(function Bar({ route, search, onHelp, onFind, simulated }: BarProps) {
  const features = useFeatures();
  const dark = useTheme() === "dark";
  const here = PARTS[route.page] ?? route.page;
  const nav = useRef<HTMLElement>(null);
  useEffect(() => {
    nav.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [here]);
  return (
    <header className="bar">
      <a className="mark" href="#/" aria-label="andon board">andon</a>
      <nav ref={nav} aria-label="pages">
        {menu(features).map(({ page, title, apart }) => (
          <a key={page} className={[apart && "apart", page === "alerts" && page].filter(Boolean).join(" ") || undefined} href={linkOf(page)} aria-current={here === page ? "page" : undefined}>
            {title}
            {page === "alerts" && <Firing />}
          </a>
        ))}
      </nav>
      {simulated && <span className="simulated">SIMULATED</span>}
      <span className="tools">
        <button type="button" className="find" onClick={() => onFind(search)} aria-label="find anything" title="find anything (/)">
          <svg viewBox="0 0 16 16" aria-hidden="true"><circle cx="6.7" cy="6.7" r="4.7" /><path d="m10.3 10.3 4.2 4.2" /></svg><span>{search ? `only “${search}”` : "Find"}</span><kbd>/</kbd>
        </button>
        {search && <button type="button" className="quiet" onClick={() => setSearch("")} aria-label={`show more than “${search}”`}>✕</button>}
        <button type="button" className="quiet" onClick={toggleTheme} aria-label={dark ? "light theme" : "dark theme"}>
          {dark ? "☀" : "☾"}
        </button>
        <button type="button" className="quiet" onClick={onHelp} aria-label="help">?</button>
      </span>
    </header>
  );
});

const FIRING = new URLSearchParams({ kinds: "alert", limit: "0" });

/** How many alerts need attention: of a hub, those of all its nodes. */
function Firing() {
  const own = useAlerts((alerts) => alerts.latest(false)).data;
  const nodes = useItems(FIRING, useHub()).data?.firing;
  const firing = badge(own, nodes);
  return firing && <span className={`badge ${firing.colour}`} aria-label={`${firing.count} active`}>{firing.count}</span>;
}

/** Whether the page is about a node that this hub does not have. */
function useUnknownNode(): boolean {
  const rows = useNodes(NODE !== null).data?.nodes;
  return NODE !== null && rows !== undefined && !rows.some((one) => one.name === NODE);
}

/** On every page of a node: which it is, and the way back. */
function BelowHub({ name }: { name: string }) {
  const row = useNodes(true).data?.nodes.find((one) => one.name === name);
  return (
    <nav className="below-hub" aria-label="hub">
      <a href={FLEET}>← Fleet</a> <b>{name}</b>
      {row && <span>{[row.state !== "silent" && row.state, row.reason, row.drained && "drained"].filter(Boolean).join(" · ")}</span>}
    </nav>
  );
}

/** The first page of a hub that has nodes; a link to a page of it is followed. */
function useFirstFleet(): void {
  const waits = useRef(NODE === null && ["", "#/"].includes(location.hash));
  const nodes = useNodes(false).data;
  useEffect(() => {
    if (!waits.current || !nodes) return;
    waits.current = false;
    if (nodes.nodes.length && ["", "#/"].includes(location.hash)) location.replace("#/fleet");
  }, [nodes]);
}

/** The state of the connection; hidden while it is live. */
const Connection = memo(function Connection() {
  const link = useLive((now) => now.link);
  const old = useLive((now) => now.staleSeconds);
  const has = useLive((now) => now.snapshot !== null);
  const age = old === null ? "" : ` Showing data from ${duration(old)} ago.`;
  let message = "";
  if (link.state === "away") {
    message = `Reconnecting (${count(link.attempt || 1, "attempt")} so far): ${link.reason}.${age}`;
  } else if (old !== null) {
    message = `Connected, but no new data is arriving.${age}`;
  } else if (!has && link.state === "live") {
    message = "Connected; waiting for the first reading";
  }
  return <p className="connection" role="status" hidden={!message}>{message}</p>;
});

function Page({ route, search, judged }: { route: Route; search: string; judged: ReturnType<typeof useJudged> }) {
  switch (route.page) {
    case "board":
      return <BoardPage judged={judged} search={search} query={route.query} />;
    case "device":
      return <LaterPage show={({ DevicePage }) => <DevicePage key={route.name} uuid={route.name ?? ""} query={route.query} judged={judged} />} />;
    case "charts":
      return <Charts query={route.query} judged={judged} search={search} />;
    case "processes":
      return <LaterPage show={({ ProcessesPage }) => <ProcessesPage search={search} query={route.query} />} />;
    case "process":
      return <LaterPage show={({ ProcessPage }) => <ProcessPage name={route.name ?? ""} query={route.query} />} />;
    case "user":
      return <LaterPage show={({ UserPage }) => <UserPage name={route.name ?? ""} />} />;
    case "alerts":
      return <LaterPage show={({ AlertsPage }) => <AlertsPage name={route.name} search={search} />} />;
    case "leases":
      return <LaterPage show={({ LeasesPage }) => <LeasesPage name={route.name} search={search} />} />;
    case "runs":
      return <LaterPage show={({ RunsPages }) => <RunsPages name={route.name} search={search} query={route.query} />} />;
    case "estimate":
      return <LaterPage show={({ EstimatePage }) => <EstimatePage />} />;
    case "jobs":
      return <LaterPage show={({ JobsPages }) => <JobsPages name={route.name} search={search} query={route.query} />} />;
    case "sign-in":
      return <SignInPage />;
    case "health":
      return <LaterPage show={({ HealthPage }) => <HealthPage />} />;
    case "fleet":
      return <LaterPage show={({ FleetPage }) => <FleetPage query={route.query} />} />;
    default:
      return <Notice title="Page not found" whole><p>Go to the <a href="#/">board</a>.</p></Notice>;
  }
}

/** A hub has those of its nodes; where no node reports yet, its own. */
function Charts(props: { query: URLSearchParams; judged: ReturnType<typeof useJudged>; search: string }) {
  const many = useNodes(false).data?.nodes.length ?? 0;
  const hub = useHub() && many > 0;
  return <LaterPage show={({ ChartsPage, FleetCharts }) => (hub ? <FleetCharts query={props.query} /> : <ChartsPage {...props} />)} />;
}

/** The only place with the command to sign in; `here` is the page that explains it. */
const Foot = memo(function Foot({ here, live }: { here: boolean; live: boolean }) {
  const trusted = useTrusted();
  const session = useSession();
  const demo = useFeatures()["demo"] === true;
  const link = useLive((now) => now.link.state);
  const old = useLive((now) => now.staleSeconds !== null);
  const state = old ? "stale" : link === "live" ? "live" : link === "away" ? "reconnecting" : "connecting";
  return (
    <footer>
      <span className="state">
        {live && session?.reads !== false && <span className={`link ${state}`}>{state}</span>}
        <a href="#/health">Health</a>
      </span>
      <span>
        {trusted ? (
          <>
            signed in{session?.user && ` as ${session.user}`} <Phone /> <button type="button" className="quiet" onClick={() => void signOut()}>sign out</button>
          </>
        ) : (
          <>
            {sessionEnded() && "your session has ended · "}{demo ? <>a demo: to change things, run <Command text={openCommand()} /> or open the link that andon demo printed</> : here ? "not signed in" : <>read-only: <span className="at-home">run <Command text={openCommand()} /> or </span><a href="#/sign-in">sign in from a phone or elsewhere</a></>}
          </>
        )}
      </span>
      <span className="sources">
        <Share /> <a href={below("/api/snapshot", NODE)}>snapshot</a> <a href="/metrics">metrics</a> <a href="/docs">API</a>
      </span>
    </footer>
  );
});

function useKeys(onHelp: () => void, onFind: (text: string) => void, finding: boolean): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const typing = (event.target as HTMLElement).closest?.("input, textarea, select, dialog[open]");
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
      const page = KEYS[event.key];
      if (finding) event.key.length === 1 && onFind(event.key); // typed before the palette is there
      else if (event.key === "/") onFind("");
      else if (event.key === "?") onHelp();
      else if (event.key === "t") toggleTheme();
      else if (page) go(page);
      else if (event.key.startsWith("Arrow") && document.activeElement === document.body) {
        document.querySelector<HTMLElement>("a[data-uuid]")?.focus();
      } else return;
      event.preventDefault();
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, [onHelp, onFind, finding]);
}
