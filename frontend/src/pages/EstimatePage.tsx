/** Whether a model fits: answered while it is typed, with a bar per GPU, here or elsewhere. */
import { type ReactNode, useEffect, useMemo, useState } from "react";
import { Problem, send } from "../api/client";
import { useEstimateNames, useHub, useNodes } from "../api/server";
import type { Estimate, EstimateFit, EstimateNames } from "../api/types";
import { type Alike, alike, optionsOf, parameterText, partsOf, requestOf, suggested } from "../lib/estimating";
import { count, gib, inGib, unbroken } from "../lib/format";
import type { Colour } from "../lib/lamps";
import { fitting } from "../lib/fleet";
import { NODE, nodeLink } from "../lib/node";
import { keep, useRoute } from "../lib/router";
import { live } from "../live/store";
import { Command } from "../parts/Command";
import { Lamp } from "../parts/Lamp";
import { Notice, Trouble } from "../parts/Notice";
import { type Column, Table } from "../parts/Table";

const ENGINES: [string, string][] = [
  ["vllm", "vLLM"], ["sglang", "SGLang"], ["trtllm", "TensorRT-LLM"], ["transformers", "Transformers"], ["training", "Training"],
];
const ELSEWHERE = ["1xH100", "8xH100", "8xH200", "4xA100", "1xL40S", "2xRTX 4090", "8xMI300X"];
const TYPING_MS = 300;
const MOST_IN_ADDRESS = 300; // a whole config.json stays out of it

type Fields = Record<string, string>;

export function EstimatePage() {
  const { query } = useRoute();
  const [fields, setFields] = useState<Fields>(() => ({ engine: "vllm", ...Object.fromEntries(query) }));
  const { found, problem, waits } = useAnswer(fields);
  const names = useEstimateNames();
  const hub = useHub();
  const set = (name: string, value: string) => {
    const next = { ...fields, [name]: value };
    setFields(next);
    keep(new URLSearchParams(Object.entries(next).filter(([key, text]) => text && text.length <= MOST_IN_ADDRESS && !(key === "engine" && text === "vllm"))));
  };
  const typed = (fields["model"] ?? "").trim();
  return (
    <section>
      <div className="page-head">
        <h1>Estimate</h1>
        <p className="dim">How much memory a model needs, and which GPUs it fits on.</p>
        <Command text={`andon estimate ${/^[\w./:-]+$/.test(typed) ? typed : "MODEL"}${fields["gpus"] ? ` --on-gpus '${fields["gpus"]}'` : ""}`} />
      </div>
      <div className="estimating">
        <Form fields={fields} set={set} names={names} />
        <div className={`estimated${waits ? " waits" : ""}`} role="status">
          {problem && typed && <Trouble problem={problem} what="There is no estimate" />}
          {found && !problem && typed && <Answer found={found} />}
          {found?.per_gpu && !problem && typed && hub && <OnOtherNodes least={found.per_gpu.minimum_bytes} gpus={found.world_size} />}
          {!typed && (
            <Notice title="Will it fit?">
              <p>Choose a model on the left, or paste the text of its <code>config.json</code> or the command that serves it. The answer follows while you type.</p>
              <p>Weights, cache and activations are computed; nothing is downloaded and no file is read.</p>
            </Notice>
          )}
        </div>
      </div>
    </section>
  );
}

/** The answer to what is typed, a moment after the last key. */
function useAnswer(fields: Fields): { found: Estimate | null; problem: Problem | null; waits: boolean } {
  const [answer, setAnswer] = useState<{ found: Estimate | null; problem: Problem | null; to: string }>({ found: null, problem: null, to: "" });
  const asked = JSON.stringify(fields);
  const model = (fields["model"] ?? "").trim();
  useEffect(() => {
    if (!model) return;
    let over = false;
    const timer = setTimeout(async () => {
      const trimmed = Object.fromEntries(Object.entries(JSON.parse(asked) as Fields).map(([name, value]) => [name, value.trim()]));
      try {
        const found = await send<Estimate>("POST", "/api/estimate", requestOf(model, optionsOf(trimmed), trimmed["gpus"]), NODE);
        if (!over) setAnswer({ found, problem: null, to: asked });
      } catch (error) {
        const problem = error instanceof Problem ? error : new Problem(0, "this is not JSON", "paste a whole config.json, or type a name");
        if (!over) setAnswer((before) => ({ found: before.found, problem, to: asked }));
      }
    }, TYPING_MS);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [asked, model]);
  return { ...answer, waits: model !== "" && answer.to !== asked };
}

const MOST_NODES = 50;

/** Of a hub: the nodes with enough free GPUs of one model, those that would have fewest left first. */
function OnOtherNodes({ least, gpus }: { least: number; gpus: number }) {
  const rows = useNodes(true).data?.nodes ?? [];
  const fits = useMemo(() => fitting(rows, least, gpus), [rows, least, gpus]);
  const columns: Column<(typeof fits)[number]>[] = [
    { name: "node", cell: (one) => <a href={nodeLink(one.node, location.hash)}>{one.node}</a> },
    { name: "model", cell: (one) => one.model },
    { name: "free", cell: (one) => one.labels.join(", ") },
    { name: "memory", cell: (one) => inGib(one.bytes), number: true },
  ];
  return (
    <section aria-label="on other nodes">
      <h2>On the nodes of this hub</h2>
      {fits.length > 0 ? <Table caption="nodes it fits on now" columns={columns} rows={fits.slice(0, MOST_NODES)} rowKey={(one) => `${one.node} ${one.model}`} /> : <p>No node has {count(gpus, "free GPU")} of one model with {inGib(least)}.</p>}
      {fits.length > MOST_NODES && <p className="dim">and on {count(fits.length - MOST_NODES, "other")}</p>}
    </section>
  );
}

function Form({ fields, set, names }: { fields: Fields; set: (name: string, value: string) => void; names: EstimateNames | undefined }) {
  const trains = fields["engine"] === "training";
  const whole = (name: string, label: string, placeholder: string) => (
    <Field name={label}><input aria-label={label} inputMode="numeric" pattern="[0-9]*" maxLength={9} placeholder={placeholder} value={fields[name] ?? ""} onChange={(event) => set(name, event.target.value)} /></Field>
  );
  return (
    <form className="fields estimate" onSubmit={(event) => event.preventDefault()}>
      <Field name="model">
        <textarea rows={2} aria-label="model" spellCheck={false} placeholder="a name such as llama-3-8b, the text of its config.json, or vllm serve …" value={fields["model"] ?? ""} onChange={(event) => set("model", event.target.value)} />
      </Field>
      <p className="buttons chips" role="group" aria-label="known models">
        {suggested(fields["model"] ?? "", names?.models ?? []).map((name) => <button key={name} type="button" aria-pressed={name === fields["model"]} onClick={() => set("model", name)}>{name}</button>)}
      </p>
      <Field name="engine">
        <select aria-label="engine" value={fields["engine"]} onChange={(event) => set("engine", event.target.value)}>
          {ENGINES.map(([value, title]) => <option key={value} value={value}>{title}</option>)}
        </select>
      </Field>
      {trains ? (
        <>
          {whole("dp", "GPUs", "1")}
          <Field name="precision">
            <select aria-label="precision" value={fields["precision"] ?? "mixed"} onChange={(event) => set("precision", event.target.value)}>
              {["fp32", "mixed", "bf16"].map((one) => <option key={one}>{one}</option>)}
            </select>
          </Field>
          {whole("sequence", "sequence", "2048 tokens")}
          {whole("batch", "batch", "1")}
          {whole("zero", "ZeRO stage", "0")}
        </>
      ) : (
        <>
          {whole("tp", "tensor parallel", "1")}
          {whole("context", "context", "tokens; the model's own")}
          {whole("requests", "requests", "1 at once")}
        </>
      )}
      <Field name="on GPUs">
        <input aria-label="on GPUs" maxLength={200} spellCheck={false} list="gpu-names" placeholder="these; or others: 4xH100" value={fields["gpus"] ?? ""} onChange={(event) => set("gpus", event.target.value)} />
      </Field>
      <datalist id="gpu-names">{names?.gpus.map((one) => <option key={one.name} value={`1x${one.name}`}>{inGib(one.memory_bytes)}</option>)}</datalist>
      <p className="buttons chips" role="group" aria-label="what if it ran on">
        <button type="button" aria-pressed={!fields["gpus"]} onClick={() => set("gpus", "")}>these GPUs</button>
        {ELSEWHERE.map((text) => <button key={text} type="button" aria-pressed={fields["gpus"] === text} onClick={() => set("gpus", text)}>{text.replace("x", " × ")}</button>)}
      </p>
    </form>
  );
}

function Field({ name, children }: { name: string; children: ReactNode }) {
  return <div className="field"><span className="dim">{name}</span>{children}</div>;
}

function Answer({ found }: { found: Estimate }) {
  const refused = found.refused;
  const colour: Colour = found.fits_now ? "green" : found.fits_empty ? "amber" : found.fits_empty === false || refused ? "red" : "grey";
  const rows = alike(found.fits);
  const known = rows.flatMap(({ fit }) => partsOf(fit, found.per_gpu) ?? []);
  const widest = Math.max(1, ...rows.map(({ fit }) => fit.total_bytes ?? 0), ...known.map((one) => one.parts.reduce((sum, part) => sum + part.bytes, 0)));
  const legend = new Map(known.flatMap((one) => one.parts.map((part) => [part.name, part.colour] as const)));
  const needs = found.per_gpu;
  return (
    <>
      <h2 className="verdict"><Lamp colour={colour} /> <span>{unbroken(found.verdict)}</span></h2>
      <p className="dim">
        {found.model}{found.parameters !== null && `, ${parameterText(found.parameters)} parameters`}{found.format && `, ${found.format}`}; known from {found.source}, {found.confidence} confidence
      </p>
      {refused && refused.nearest.length > 0 && <p>The nearest that work: {refused.nearest.map((size) => `${refused.option} ${size}`).join(" or ")}</p>}
      {found.understood && <p className="dim">{unbroken(found.understood)}</p>}
      {needs && (
        <dl className="numbers">
          <div className="large"><dt>{found.world_size > 1 ? `needs on each of ${found.world_size} GPUs` : "needs"}</dt><dd>{inGib(needs.minimum_bytes)}</dd></div>
          {(partsOf({ total_bytes: 1, free_bytes: 1, needed_bytes: 0 } as EstimateFit, needs)?.parts ?? []).map((part) => <div key={part.name}><dt><i className="swatch" style={{ background: `var(${part.colour})` }} />{part.name}</dt><dd>{inGib(part.bytes)}</dd></div>)}
          <div><dt>comfortable</dt><dd>{inGib(needs.comfortable_bytes)}</dd></div>
        </dl>
      )}
      {needs && needs.kv_bytes === null && found.engine !== "training" && <p className="dim">The KV cache is not known from this: paste its config.json.</p>}
      <ul className="fits">{rows.map(({ fit, labels }) => <FitRow key={fit.uuid} fit={fit} labels={labels} found={found} widest={widest} />)}</ul>
      {known.length > 0 && (
        <ul className="plain run-legend">
          {[...legend].map(([name, shade]) => <li key={name}><i className={shade === null ? "taken" : undefined} style={shade === null ? undefined : { background: `var(${shade})` }} />{name === "more cache" ? "what the server adds for its cache" : name === "in use" && found.elsewhere ? "kept by the driver" : name}</li>)}
          <li><i className="free" />free</li>
        </ul>
      )}
      {found.smallest.empty && <p>Smallest that fits{found.elsewhere ? "" : found.smallest.now ? " now" : " when the GPUs are empty"}: {count((found.smallest.now ?? found.smallest.empty).world_size, "GPU")}</p>}
      {found.notes.map((note) => <p key={note} className="dim">{unbroken(note)}</p>)}
      {found.run && <p>{found.elsewhere ? <code>{found.run}</code> : <Command text={found.run} />}</p>}
    </>
  );
}

function FitRow({ fit, labels, found, widest }: Alike & { found: Estimate; widest: number }) {
  const drawn = partsOf(fit, found.per_gpu);
  const state = found.elsewhere ? "ok" : (live.device(fit.uuid)?.state ?? "ok");
  const gone = state === "ok" || state === "asleep" ? null : state === "stale" ? "not responding" : state;
  const word = gone ?? (fit.now ? (found.elsewhere ? "fits" : "fits now") : fit.empty ? "fits when empty" : fit.empty === false ? "does not fit" : "not known");
  const says = drawn ? `${drawn.parts.map((part) => `${part.name} ${inGib(part.bytes)}`).join(", ")}${drawn.over ? `, ${inGib(drawn.over)} too much` : `, ${inGib(drawn.free)} free`} of ${inGib(fit.total_bytes)}` : gone ? `it is ${gone}` : "its memory is not known";
  const wide = (bytes: number) => `${(100 * bytes) / widest}%`;
  return (
    <li className={gone ? "fit gone" : fit.now ? "fit now" : fit.empty ? "fit later" : "fit never"}>
      <span><b>{found.elsewhere ? `${labels.length} × ${fit.name}` : `GPU ${labels.join(", ")}`}</b> <span className="dim">{found.elsewhere ? "" : fit.name}</span></span>
      <span className="fit-bar" role="img" aria-label={says} title={says}>
        {gone && <span className="whole-gpu" style={{ width: wide(fit.total_bytes ?? widest) }} />}
        {!gone && drawn && fit.total_bytes && (
          <>
            <span className="whole-gpu" style={{ width: wide(fit.total_bytes) }} />
            {drawn.parts.map((part) => <span key={part.name} className={part.colour === null ? "taken" : part.name === "more cache" ? "more" : undefined} style={{ width: wide(part.bytes), ...(part.colour && { background: `var(${part.colour})` }) }} />)}
            {drawn.over > 0 && <i className="end-of-gpu" style={{ left: wide(fit.total_bytes) }} />}
          </>
        )}
      </span>
      <span className="word">{word}</span>
      <span className="dim">{gone ? "nobody can use it until it responds again" : fit.reason ? unbroken(fit.reason) : (drawn && drawn.over === 0 ? `${gib(drawn.free)} of ${inGib(fit.total_bytes)} stay free` : `needs ${gib(fit.needed_bytes)} of ${inGib(fit.free_bytes)} free`)}</span>
    </li>
  );
}
