// The pipeline as a row of nodes with the number of events on the way between them, and a menu that adds a step.
import { useRef, useState } from "preact/hooks";
import { count } from "../shared/format.js";
import { TEMPLATES } from "./templates.js";

export function Steps({ trial, chosen, onChoose, onAdd, now, onNow }) {
  const streams = Map.groupBy ? Map.groupBy(trial.steps, (step) => step.stream) : groupBy(trial.steps);
  const several = streams.size > 1;
  return (
    <nav class="steps" aria-label="Steps">
      {!several && <Node name={trial.sources[0].name} type={trial.sources[0].type} kind="source" />}
      {[...streams].map(([stream, steps]) => (
        <div class="stream" key={stream}>
          {several && <span class="stream-name">{stream}<small>from {steps[0].inputs.join(", ")}</small></span>}
          {steps.map((step) => <Step key={step.id} step={step} chosen={step.id === chosen} onChoose={onChoose} />)}
          {!several && <SinkNodes trial={trial} left={steps.at(-1).left} />}
        </div>
      ))}
      <AddStep onAdd={onAdd} />
      <span class="grow" />
      <label class="clock">clock <input value={now} placeholder="as it is, or 2026-11-20T06:30Z" title="The time at which the lines are read: for dates without a year, and windows without an event time" spellcheck={false} onChange={(event) => onNow(event.target.value.trim())} /></label>
    </nav>
  );
}

function groupBy(steps) {
  const found = new Map();
  for (const step of steps) found.set(step.stream, [...(found.get(step.stream) ?? []), step]);
  return found;
}

function Step({ step, chosen, onChoose }) {
  const filtered = Math.max(0, step.incoming - step.left - step.dead);
  const aggregates = step.runs_on !== "arrow" || !step.ran;
  return (
    <>
      <Edge events={step.incoming} />
      <button class="node step" aria-pressed={chosen} onClick={() => onChoose(step.id)} title={step.spark_reason ?? undefined}>
        <b>{step.type}</b>
        <small>
          {step.dead > 0 && <span class="dead">{count(step.dead)} dead</span>}
          {filtered > 0 && !aggregates && <span>{count(filtered)} {step.on_error === "drop" ? "dropped" : "filtered"}</span>}
          {!step.ran ? <span>Spark runs it: not here</span> : aggregates && <span class="state">keeps state</span>}
          {!step.dead && !filtered && !aggregates && (step.added.length ? <span>+{step.added.length} fields</span> : <span>all pass</span>)}
        </small>
      </button>
    </>
  );
}

const SinkNodes = ({ trial, left }) =>
  trial.sinks.map((sink) => (
    <>
      <Edge events={left} />
      <Node key={sink.name} name={sink.name} type={sink.type} kind="sink" />
    </>
  ));

const Edge = ({ events }) => <span class="edge" aria-label={`${events} events`}>{count(events)}</span>;

const Node = ({ name, type, kind }) => <span class={`node ${kind}`}><b>{type}</b><small>{name}</small></span>;

function AddStep({ onAdd }) {
  const [open, setOpen] = useState(false);
  const opener = useRef(null);
  const close = () => (setOpen(false), opener.current.focus()); // the menu, which has the focus, is gone
  const add = (name) => (close(), onAdd(name));
  return (
    <div class="add" onKeyDown={(event) => event.key === "Escape" && close()}>
      <button ref={opener} aria-expanded={open} onClick={() => setOpen(!open)}>+ add step</button>
      {open && (
        <div class="menu">
          {Object.entries(TEMPLATES).map(([name, { about }]) => (
            <button key={name} onClick={() => add(name)}><b>{name}</b><small>{about}</small></button>
          ))}
        </div>
      )}
    </div>
  );
}
