/** One GPU on the board: number, lamp, utilisation, and what else fits its size. */
import { memo, type ReactNode } from "react";
import type { Density } from "../lib/fit";
import { gib, percent, used, withUnit } from "../lib/format";
import { occupants } from "../lib/holding";
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
  faded: boolean;
}

export const Tile = memo(function Tile({ uuid, density, narrow, colour, word, reason, forWhom, held, until, faded }: Props) {
  const face = useFace(uuid);
  if (!face) return null;
  const description = [
    `GPU ${face.label}`, word, reason, forWhom && `affects ${forWhom}`, face.busy !== null && `utilisation ${face.busy} %`,
    held && `held by ${held}`, held && until && `until ${until}`,
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
            <Small face={face} note={colour === "green" ? null : (forWhom ?? (narrow ? word : (shortened(reason) ?? word)))} held={held} />
          ) : (
            <Full
              face={face} reason={colour === "green" ? null : shortened(reason)} roomy={density !== "medium"}
              who={(held !== null || !face.silent) && <Who held={held !== null}>{occupants(face.who, held, until)}</Who>}
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

function Small({ face, note, held }: { face: Face; note: string | null; held: string | null }) {
  return (
    <>
      <Sparkline line={face.line} area={face.area} />
      <Meter percent={face.memoryPercent} />
      <span className="foot">
        <span>{withUnit(face.celsius, "°C")}</span>
        <Who held={held !== null}>{note ?? held ?? face.who}</Who>
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
      {props.reason && <span className="reason">{props.reason}</span>}
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
