/** One GPU on the board: number, lamp, utilisation, and what else fits its size. */
import { memo, type ReactNode } from "react";
import type { Verdict } from "../api/types";
import type { Density } from "../lib/fit";
import { gib, percent, used, withUnit } from "../lib/format";
import { occupants, unheld } from "../lib/holding";
import { type Colour, shortened } from "../lib/lamps";
import { deviceLink } from "../lib/router";
import { useFace, type Face } from "../live/faces";
import { Flag, Lamp } from "./Lamp";
import { Meter } from "./Meter";
import { Sparkline } from "./Sparkline";

interface Props {
  uuid: string;
  density: Density;
  /** No room for the status beside the number. */
  narrow: boolean;
  colour: Colour;
  word: string;
  reason: string | null;
  forWhom: string | null;
  /** Who holds it, and until when. */
  held: string | null;
  until: string | null;
  /** Whether it is available, and if not, why. */
  kind: Verdict["kind"] | null;
  why: string | null;
  faded: boolean;
}

const AVAILABLE = { free: "free", held: "held", in_use: "used without a lease", withheld: "withheld" };

export const Tile = memo(function Tile({ uuid, density, narrow, colour, word, reason, forWhom, held, until, kind, why, faded }: Props) {
  const face = useFace(uuid);
  if (!face) return null;
  const calm = colour === "green";
  const verdict = unheld(kind, calm ? why : null, face.who); // a lit lamp shows the reason itself
  const last = held === null || kind === "withheld" ? verdict : occupants(face.who, held, until);
  const description = [
    `GPU ${face.label}`, word, reason, forWhom && `affects ${forWhom}`, face.busy !== null && `utilisation ${face.busy} %`,
    held === null && kind !== null && AVAILABLE[kind], held && `held by ${held}`, held && until && `until ${until}`,
  ];
  return (
    <li className={`tile ${density} ${colour}${faded ? " faded" : ""}`}>
      <a href={deviceLink(uuid)} data-uuid={uuid}>
        <span className="hidden">{description.filter(Boolean).join(", ")}</span>
        <span className="face" aria-hidden="true">
          <span className="head">
            <Lamp colour={colour} />
            <b className="number">{face.label}</b>
            <span className="name">
              <span className="word">{word}</span>
              {density !== "compact" && <span className="model">{face.name}</span>}
            </span>
            <span className="busy">{percent(face.busy)}</span>
          </span>
          {density === "compact" ? (
            <Small face={face} note={calm ? null : (forWhom ?? (narrow ? word : (shortened(reason) ?? word)))} held={held} kind={kind} />
          ) : (
            <Full
              face={face} reason={calm ? null : shortened(reason)} roomy={density !== "medium"}
              who={(held !== null || !face.silent) && <Who held={held !== null}>{last}</Who>}
            />
          )}
        </span>
      </a>
    </li>
  );
});

/** Its users; a flag marks a lease. */
function Who({ held, children }: { held: boolean; children: string }) {
  return (
    <span className="who">
      {held && <Flag />}
      {children}
    </span>
  );
}

function Small({ face, note, held, kind }: { face: Face; note: string | null; held: string | null; kind: Verdict["kind"] | null }) {
  return (
    <>
      <Sparkline line={face.line} area={face.area} />
      <Meter percent={face.memoryPercent} />
      <span className="foot">
        <span>{withUnit(face.celsius, "°C")}</span>
        <Who held={held !== null}>{note ?? held ?? (kind === "withheld" ? kind : face.who || (kind === "free" ? kind : ""))}</Who>
      </span>
    </>
  );
}

interface FullProps {
  face: Face;
  reason: string | null;
  roomy: boolean;
  who: ReactNode;
}

function Full(props: FullProps) {
  return (
    <>
      {/* Its place is kept where there is no reason: the lines of all tiles have the same scale. */}
      {(props.reason || (props.roomy && !props.face.silent)) && <span className="reason">{props.reason}</span>}
      {props.face.silent ? props.who : <Readings {...props} />}
    </>
  );
}

function Readings({ face, reason, roomy, who }: FullProps) {
  return (
    <>
      {(roomy || !reason) && <Sparkline line={face.line} area={face.area} />}
      <span className="memory">
        <Meter percent={face.memoryPercent} />
        <span>{used(face.memoryUsed, face.memoryTotal, "GiB", gib)}</span>
      </span>
      <span className="foot">
        <span>{withUnit(face.celsius, "°C")}</span>
        <span>{roomy ? used(face.watts, face.wattsLimit, "W") : withUnit(face.watts, "W")}</span>
        {roomy && face.fan !== null && <span>fan {face.fan} %</span>}
        {!roomy && who}
      </span>
      {roomy && who}
    </>
  );
}
