/** Whether a model fits: a form, what each GPU needs, and a bar per GPU against its free memory. */
import { type FormEvent, type ReactNode, useState } from "react";
import { Problem, send } from "../api/client";
import type { Estimate, EstimateFit } from "../api/types";
import { fitParts, optionsOf, parameterText, requestOf } from "../lib/estimating";
import { count, gib } from "../lib/format";
import { Command } from "../parts/Command";
import { Trouble } from "../parts/Notice";

const ENGINES: [string, string][] = [
  ["vllm", "vLLM"], ["sglang", "SGLang"], ["trtllm", "TensorRT-LLM"], ["transformers", "Transformers"], ["training", "Training"],
];
const NUMBERS: [keyof NonNullable<Estimate["per_gpu"]>, string][] = [
  ["weights_bytes", "weights"], ["kv_bytes", "KV cache"], ["gradients_bytes", "gradients"], ["optimizer_bytes", "optimizer"],
  ["activations_bytes", "activations"], ["overhead_bytes", "overhead"], ["minimum_bytes", "minimum"],
  ["comfortable_bytes", "comfortable"], ["claim_bytes", "claimed by the server"],
];

export function EstimatePage() {
  const [found, setFound] = useState<Estimate | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [waits, setWaits] = useState(false);
  const ask = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const fields = Object.fromEntries([...new FormData(event.currentTarget)].map(([name, value]) => [name, String(value).trim()]));
    setWaits(true);
    try {
      setFound(await send<Estimate>("POST", "/api/estimate", requestOf(fields["model"] ?? "", optionsOf(fields), fields["gpus"])));
      setProblem(null);
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem(0, "this is not JSON", "paste a whole config.json, or type a name"));
    } finally {
      setWaits(false);
    }
  };
  return (
    <section>
      <div className="page-head">
        <h1>Estimate</h1>
        <p className="dim">How much memory a model needs, and which of these GPUs it fits on.</p>
        <Command text="andon estimate MODEL" />
      </div>
      <Form onSubmit={(event) => void ask(event)} waits={waits} />
      {problem && <Trouble problem={problem} what="There is no estimate" />}
      {found && !problem && <Answer found={found} />}
    </section>
  );
}

function Form({ onSubmit, waits }: { onSubmit: (event: FormEvent<HTMLFormElement>) => void; waits: boolean }) {
  const [engine, setEngine] = useState("vllm");
  const trains = engine === "training";
  return (
    <form className="fields estimate" onSubmit={onSubmit}>
      <Field name="model">
        <textarea name="model" required rows={2} aria-label="model" spellCheck={false} placeholder="a name such as llama-3-8b, the text of its config.json, or vllm serve …" />
      </Field>
      <Field name="engine">
        <select name="engine" aria-label="engine" value={engine} onChange={(event) => setEngine(event.target.value)}>
          {ENGINES.map(([value, title]) => <option key={value} value={value}>{title}</option>)}
        </select>
      </Field>
      <Field name={trains ? "GPUs" : "tensor parallel"}><Whole name={trains ? "dp" : "tp"} label={trains ? "GPUs" : "tensor parallel"} placeholder="1" /></Field>
      {trains ? (
        <>
          <Field name="precision">
            <select name="precision" aria-label="precision" defaultValue="mixed">
              {["fp32", "mixed", "bf16"].map((one) => <option key={one}>{one}</option>)}
            </select>
          </Field>
          <Field name="sequence"><Whole name="sequence" label="sequence" placeholder="2048 tokens" /></Field>
          <Field name="batch"><Whole name="batch" label="batch" placeholder="1" /></Field>
          <Field name="ZeRO stage"><Whole name="zero" label="ZeRO stage" placeholder="0" /></Field>
        </>
      ) : (
        <>
          <Field name="context"><Whole name="context" label="context" placeholder="tokens; the model's own" /></Field>
          <Field name="requests"><Whole name="requests" label="requests" placeholder="1 at once" /></Field>
        </>
      )}
      <Field name="on GPUs"><input name="gpus" aria-label="on GPUs" maxLength={200} spellCheck={false} placeholder="these; or others: 4xH100" /></Field>
      <p className="buttons"><button type="submit" className="main" disabled={waits}>{waits ? "Estimating…" : "Estimate"}</button></p>
    </form>
  );
}

function Field({ name, children }: { name: string; children: ReactNode }) {
  return <div className="field"><span className="dim">{name}</span>{children}</div>;
}

function Whole({ name, label, placeholder }: { name: string; label: string; placeholder: string }) {
  return <input name={name} aria-label={label} inputMode="numeric" pattern="[0-9]*" maxLength={9} placeholder={placeholder} />;
}

function Answer({ found }: { found: Estimate }) {
  const refused = found.refused;
  return (
    <div role="status" className="estimated">
      <h2>{found.verdict}</h2>
      <p className="dim">
        {found.model}{found.parameters !== null && `, ${parameterText(found.parameters)} parameters`}{found.format && `, ${found.format}`}; known from {found.source}, {found.confidence} confidence
      </p>
      {refused && refused.nearest.length > 0 && <p>The nearest that work: {refused.nearest.map((size) => `${refused.option} ${size}`).join(" or ")}</p>}
      {found.understood && <p className="dim">{found.understood}</p>}
      {found.per_gpu && found.world_size > 1 && <p className="dim">On each of the {found.world_size} GPUs:</p>}
      {found.per_gpu && (
        <dl className="numbers">
          {NUMBERS.map(([name, title]) => {
            const value = found.per_gpu?.[name];
            return value === null || value === undefined ? null : <div key={name}><dt>{title}</dt><dd>{gib(value)} GiB</dd></div>;
          })}
        </dl>
      )}
      {found.smallest.empty && <p>Smallest that fits{found.elsewhere ? "" : found.smallest.now ? " now" : " when the GPUs are empty"}: {count((found.smallest.now ?? found.smallest.empty).world_size, "GPU")}</p>}
      <ul className="fits">{found.fits.map((fit) => <FitRow key={fit.uuid} fit={fit} elsewhere={found.elsewhere} />)}</ul>
      {found.fits.length > 0 && !found.elsewhere && <p className="dim">Hatched: memory in use now. In colour: what the model needs of the rest.</p>}
      {found.notes.map((note) => <p key={note} className="dim">{note}</p>)}
      {found.run && <p>{found.elsewhere ? <code>{found.run}</code> : <Command text={found.run} />}</p>}
    </div>
  );
}

function FitRow({ fit, elsewhere }: { fit: EstimateFit; elsewhere: boolean }) {
  const parts = fitParts(fit);
  return (
    <li className={fit.now ? "fit now" : fit.empty ? "fit later" : "fit never"}>
      <b>GPU {fit.label}</b> <span className="dim">{fit.name}</span>
      <span className="fit-bar" role="img" aria-label={`needs ${gib(fit.needed_bytes)} GiB; ${gib(fit.free_bytes)} of ${gib(fit.total_bytes)} GiB free`}>
        {parts && <><span className="taken" style={{ width: `${parts.taken}%` }} /><span className="needed" style={{ width: `${parts.needed}%` }} /></>}
      </span>
      <span>{fit.now ? (elsewhere ? "fits" : "fits now") : fit.empty ? "fits when empty" : fit.empty === false ? "does not fit" : "not known"}</span>
      <span className="dim">{fit.reason ?? `needs ${gib(fit.needed_bytes)} of ${gib(fit.free_bytes)} GiB free`}</span>
    </li>
  );
}
