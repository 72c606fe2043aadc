/** Signs in, opens the live connection and renders the page, in this order. */
import { QueryClientProvider } from "@tanstack/react-query";
import { createRoot } from "react-dom/client";
import { App } from "./App";
import { joinSiblings, type Problem, signIn } from "./api/client";
import { client } from "./api/asking";
import { onAlert, onLeases, onReport, onReturn } from "./api/news";
import { NODE } from "./lib/node";
import { poll } from "./live/asked";
import { connect } from "./live/socket";
import { live } from "./live/store";
import { reloadIfUpgraded } from "./live/upgrade";
import { Boundary } from "./parts/Boundary";
import "./styles/base.css";
import "./styles/board.css";
import "./styles/pages.css";
import "./styles/charts.css";

const root = createRoot(document.getElementById("root") as HTMLElement);

function draw(trouble: Problem | null): void {
  root.render(
    <QueryClientProvider client={client}>
      <Boundary place="">
        <App trouble={trouble} />
      </Boundary>
    </QueryClientProvider>,
  );
}

draw(null);
joinSiblings();
void signIn().then((trouble) => {
  if (trouble) draw(trouble);
  const back = () => {
    onReturn();
    void reloadIfUpgraded();
  };
  if (NODE === null) connect(live, onAlert, onLeases, back);
  else poll(NODE, live, onReport, back);
});
// Pasting a link into an open page changes only the fragment.
window.addEventListener("hashchange", () => void signIn().then((trouble) => trouble !== undefined && draw(trouble)));
