/** One GPU on the board: its lamp says how it is, its word whether it can be had; and what else fits its size. */
import { memo, type ReactNode } from "react";
import type { Verdict } from "../api/types";
import type { Density } from "../lib/fit";
import { DASH, gib, used, withUnit } from "../lib/format";
import { availability, brief, firstStep, occupants, unheld } from "../lib/holding";
import { acknowledgedText } from "../lib/judged";
import { type Colour, shortened } from "../lib/lamps";
import { whoAndProgress } from "../lib/progress";
import { deviceLink } from "../lib/router";
import { useFace, type Face } from "../live/faces";
import { Cordon, Flag, Lamp } from "./Lamp";
import { Meter } from "./Meter";
import { Sparkline } from "./Sparkline";

interface Props {
  uuid: string;
  density: Density;
  /** No room for the status beside the number. */
  narrow: boolean;
  /** Room for a line of text, or of readings, on a small tile. */
  tall: boolean;
  colour: Colour;
  word: string;
  reason: string | null;
  forWhom: string | null;
  /** The first thing to do. */
  advice: string | null;
  /** How long it has not been read; null while it is. */
  since: string | null;
  /** Its reason says who holds it. */
  idle: boolean;
  /** Who has acknowledged what lights it; empty without a name, null if no one has. */
  acknowledged: string | null;
  silenced: boolean;
  /** Who holds it, and until when. */
  held: string | null;
  until: string | null;
  /** Whether it is available; if not, because of whom and why. */
  kind: Verdict["kind"] | null;
  by: string | null;
  code: string | null;
  why: string | null;
  /** How far the work there is, in a line and in a few words. */
  progress: string | null;
  brief: string | null;
  faded: boolean;
}

export const Tile = memo(function Tile(props: Props) {
  const { uuid, density, colour, word, reason, held, until, kind, why, faded } = props;
  const face = useFace(uuid);
  if (!face) return null;
  const calm = colour === "green";
  const can = availability(kind, props.by ?? held, props.code);
  const handled = props.acknowledged !== null ? acknowledgedText(props.acknowledged) : props.silenced ? "silenced" : null;
  const roomy = density !== "medium";
  const said = props.idle ? face.who || "no processes"
    : held === null || kind === "withheld" ? unheld(kind, calm ? why : null, face.who, calm) : occupants(face.who, held, until, calm && kind === "held");
  const named = calm && !roomy && can !== null && props.brief !== null; // its word says who: its last line only how far
  const description = [
    `GPU ${face.label}`, !calm && word, reason, props.forWhom && !props.idle && `affects ${props.forWhom}`, handled,
    can ?? (calm && word), held && kind !== "held" && `held by ${held}`, held && until && `until ${until}`,
    face.busy !== null && `utilisation ${face.busy} %`, props.progress,
  ];
  const classes = ["tile", density, colour, kind === "free" && calm && "free", handled && "handled", props.silenced && "silenced", props.code === "cordoned" && "cordoned", faded && "faded"];
  return (
    <li className={classes.filter(Boolean).join(" ")}>
      <a href={deviceLink(uuid)} data-uuid={uuid}>
        {/* A label is not laid out, and it changes with every reading. */}
        <span className="face" role="img" aria-label={description.filter(Boolean).join(", ")}>
          <span className="head">
            <Lamp colour={colour} />
            <b className="number">{face.label}</b>
            {density !== "compact" && (
              <span className="name">
                <span className="word">{props.code === "cordoned" && <Cordon />}{calm ? (can ?? word) : word}</span>
                <span className="model">{face.name}</span>
              </span>
            )}
            {density !== "hero" && <Busy face={face} />}
          </span>
          {density === "compact" ? (
            <Small face={face} tall={props.tall} reason={props.tall && !calm ? shortened(reason) : null} note={calm ? null : note(props)} held={held} can={can} share={props.brief?.split(",", 1)[0] ?? ""} cordoned={props.code === "cordoned"} />
          ) : face.silent ? (
            <Silent {...props} face={face} handled={handled} />
          ) : density === "hero" ? (
            <Large face={face} reason={calm ? props.progress : [handled, shortened(reason)].filter(Boolean).join(" · ")}>
              <Who held={held !== null}>{said}</Who>
            </Large>
          ) : (
            <Readings face={face} roomy={roomy} short={named} reason={calm ? (roomy ? props.progress : null) : [handled, shortened(reason)].filter(Boolean).join(" · ")}>
              <Who held={held !== null}>{calm && roomy ? said : named ? props.brief ?? said : whoAndProgress(said, props.brief)}</Who>
            </Readings>
          )}
        </span>
      </a>
    </li>
  );
});

/** The number that is read first: the unit is smaller. */
function Busy({ face }: { face: Face }) {
  return <span className="busy">{face.silent ? "" : face.busy === null ? DASH : <>{face.busy}<small>{"\u00a0%"}</small></>}</span>;
}

/** What a small lit tile has room for: why it is lit, before whom it affects. */
function note({ word, reason, acknowledged, silenced }: Props): string {
  if (acknowledged !== null) return `${word} ✓ ${acknowledged}`;
  return silenced ? "silenced" : (/^alert in \d+\ss/.exec(reason ?? "")?.[0] ?? word);
}

/** Its users; a flag marks a lease. */
function Who({ held, cordoned, children }: { held: boolean; cordoned?: boolean; children: string }) {
  return (
    <span className="who">
      {held && <Flag />}
      {cordoned && <Cordon />}
      {children}
    </span>
  );
}

interface SmallProps {
  face: Face;
  tall: boolean;
  /** Instead of the chart, which is left out where it would be a few pixels high. */
  reason: string | null;
  note: string | null;
  held: string | null;
  can: string | null;
  /** How much of the work there is done. */
  share: string;
  cordoned: boolean;
}

function Small({ face, tall, reason, note, held, can, share, cordoned }: SmallProps) {
  const who = brief(held ?? (can === "free" || can === null ? face.who : can.replace(/^in use by /, "")));
  return (
    <>
      {reason ? <span className="reason">{reason}</span> : tall && <Sparkline line={face.line} area={face.area} />}
      {!face.silent && <Meter percent={face.memoryPercent} />}
      <span className="foot">
        {(note === null || !face.silent) && <span className="celsius">{withUnit(face.celsius, "°C")}</span>}
        <Who held={note === null && held !== null} cordoned={note === null && cordoned}>{note ?? (can === "free" ? can : who)}</Who>
        {note === null && share && <span className="share">{share}</span>}
      </span>
    </>
  );
}

/** A device that cannot be read: what is wrong, since when, its last hours, when and with whom it was seen, and what to do first. */
function Silent({ reason, word, since, advice, colour, held, handled, face, density }: Props & { face: Face; handled: string | null }) {
  const why = shortened(reason);
  const calm = colour === "grey" && word === "asleep";
  return (
    <>
      <span className="reason">
        {[why && why !== word ? why : null, since && !calm && !/ for \d/.test(why ?? "") ? `for ${since}` : null].filter(Boolean).join(" · ")}
      </span>
      {face.line && density !== "medium" && <Sparkline line={face.line} area={face.area} />}
      {face.last && <span className="people">{face.last}</span>}
      {!calm && <span className="people">{face.lastSeen || (held ? `held by ${held}` : "")}</span>}
      {handled && <span className="people">{handled}</span>}
      {!calm && advice && density !== "medium" && <span className="advice">{firstStep(advice)}</span>}
    </>
  );
}

/** One or two GPUs: large numbers; their lines are in the charts below. */
function Large({ face, reason, children }: { face: Face; reason: string | null; children: ReactNode }) {
  const numbers: [kind: string, name: string, value: number | string | null, unit: string][] = [
    ["util", "utilisation", face.busy, "%"],
    ["memory", "memory", face.memoryUsed === null ? null : gib(face.memoryUsed), face.memoryTotal === null ? "GiB" : `/ ${gib(face.memoryTotal)}\u00a0GiB`],
    ["heat", "temperature", face.celsius, "°C"],
    ["power", "power", face.watts, face.wattsLimit === null ? "W" : `/ ${face.wattsLimit}\u00a0W`],
  ];
  if (face.fan !== null) numbers.push(["fan", "fan", face.fan, "%"]);
  return (
    <>
      <span className="numbers">
        {numbers.map(([kind, name, value, unit]) => (
          <span key={kind} className={`value ${kind}`}>
            <b>{value ?? DASH}{value !== null && <small>{`\u00a0${unit}`}</small>}</b>
            <span>{name}</span>
          </span>
        ))}
      </span>
      {reason && <span className="reason">{reason}</span>}
      {children}
    </>
  );
}

interface ReadingsProps {
  face: Face;
  reason: string | null;
  roomy: boolean;
  /** The last line needs the room of the power. */
  short: boolean;
  children: ReactNode;
}

function Readings({ face, reason, roomy, short, children }: ReadingsProps) {
  return (
    <>
      {/* Its place is kept where there is no reason: the lines of all tiles have the same scale. */}
      {(reason || roomy) && <span className="reason">{reason}</span>}
      {(roomy || !reason) && <Sparkline line={face.line} area={face.area} />}
      <span className="memory">
        <Meter percent={face.memoryPercent} />
        <span>{used(face.memoryUsed, face.memoryTotal, "GiB", gib)}</span>
      </span>
      <span className="foot">
        <span>{withUnit(face.celsius, "°C")}</span>
        {!short && <span>{roomy ? used(face.watts, face.wattsLimit, "W") : withUnit(face.watts, "W")}</span>}
        {roomy && face.fan !== null && <span>fan {withUnit(face.fan, "%")}</span>}
        {!roomy && children}
      </span>
      {roomy && children}
    </>
  );
}
