// The studio: lines → what reads them → the pipeline's text → events after each step, while one types.
import { useEffect, useRef, useState } from "preact/hooks";
import { post } from "../shared/api.js";
import { count, percent, plural } from "../shared/format.js";
import { useTitle } from "../shared/screen.jsx";
import { Editor } from "./Editor.jsx";
import { Events } from "./Events.jsx";
import { Lines } from "./Lines.jsx";
import { Paste } from "./Paste.jsx";
import { Save } from "./Save.jsx";
import { Steps } from "./Steps.jsx";
import { TEMPLATES, addStep, addTable } from "./templates.js";

const PAUSE_MS = 120; // after the last key before the pipeline is tried
const KEY = "sluice-studio";

/** A value that the tab keeps over a reload. */
function useKept(name, initial) {
  const [value, setValue] = useState(() => JSON.parse(sessionStorage.getItem(`${KEY}-${name}`) ?? "null") ?? initial);
  useEffect(() => {
    try {
      sessionStorage.setItem(`${KEY}-${name}`, JSON.stringify(value));
    } catch { /* too large for the tab's storage: a reload begins anew */ }
  }, [value]);
  return [value, setValue];
}

export function Studio({ about }) {
  const [lines, setLines] = useKept("lines", "");
  const [origin, setOrigin] = useKept("origin", "lines.log");
  const [yaml, setYaml] = useKept("yaml", "");
  const [name] = useKept("name", "");
  const [now, setNow] = useKept("now", "");
  const [found, setFound] = useState(null);
  const [pasting, setPasting] = useState(!lines);
  const [step, setStep] = useState("");
  const [hovered, setHovered] = useState(null);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState("");
  const editor = useRef(null);
  useTitle("Studio");
  const { trial, problems, failed } = useTrial(yaml, lines, step, now);

  useEffect(() => {
    if (!about.file || lines) return;
    if (about.file.kind === "pipeline") setYaml(about.file.text);
    else useLines(about.file.text, about.file.path);
  }, []);

  async function useLines(text, name, requested) {
    setLines(text);
    setOrigin(name);
    setPasting(false);
    setBusy("looking for what reads these lines");
    setError(null);
    try {
      const answer = await post("/api/studio/infer", { text, origin: name, ...(requested ? { requested } : {}) });
      setFound(answer);
      setYaml(answer.yaml);
      setStep("");
    } catch (problem) {
      setFound(null);
      setError(problem.message);
      if (!yaml) setYaml(`source:\n  type: file\n  path: ${name}\nsteps:\n  - type: grok\n    patterns:\n      - '%{GREEDYDATA:text}'\n`);
    } finally {
      setBusy("");
    }
  }

  function add(name) {
    const { lines: make, table } = TEMPLATES[name];
    const after = trial?.steps.find((one) => one.id === trial.shown?.id);
    const next = addStep(yaml, after?.line, make(trial?.shown?.after.fields ?? []));
    setStep(after ? nextId(after.id) : "");
    setYaml(table ? addTable(next, table) : next);
  }

  const rows = trial?.lines ?? [];
  const chosen = trial?.steps.find((one) => one.id === trial.shown?.id);
  return (
    <div class="studio">
      <h1 class="hidden">Studio</h1>
      {pasting || !lines ? (
        <Paste text={lines} onLines={useLines} onCancel={lines ? () => setPasting(false) : null} />
      ) : (
        <section class="card lines-card" aria-label="Lines">
          <header class="bar">
            <h2>Lines <small>{origin}</small></h2>
            <Formats found={found} onChoose={(name) => useLines(lines, origin, name)} />
            <span class="grow" />
            <button class="quiet" onClick={() => setPasting(true)}>Other lines</button>
          </header>
          {rows.length ? (
            <Lines rows={rows} total={trial.events} hovered={hovered} onHover={setHovered} />
          ) : (
            <ol class="lines plain" tabIndex={0}>{lines.split("\n").slice(0, 300).map((line, index) => (
              <li key={index}><span class="number" aria-hidden="true">{index + 1}</span><code>{line}</code></li>
            ))}</ol>
          )}
        </section>
      )}
      <section class="card editor-card" aria-label="Pipeline">
        <header class="bar">
          <h2>Pipeline</h2>
          <Verdict problems={problems} trial={trial} failed={failed} />
          <span class="grow" />
          <Save about={about} yaml={yaml} lines={lines} name={name} now={now} />
        </header>
        <Editor handle={editor} text={yaml} onChange={setYaml} problems={problems} fields={(line) => fieldsAt(trial, line)} />
        <Problems problems={problems} failed={failed} onChoose={(line) => editor.current?.goTo(line)} />
      </section>
      {(busy || error) && <p class={`status ${error ? "bad" : ""}`} role="status">{busy ? <><span class="spinner" /> {busy}</> : error}</p>}
      {trial && lines && (
        <>
          <Steps trial={trial} chosen={trial.shown?.id} onChoose={(id) => (setStep(id), editor.current?.goTo(trial.steps.find((one) => one.id === id).line))} onAdd={add} now={now} onNow={setNow} />
          {chosen && <Events step={chosen} trial={trial} hovered={hovered} onHover={setHovered} />}
        </>
      )}
    </div>
  );
}

const nextId = (id) => id.replace(/\[(\d+)\]$/, (_, number) => `[${Number(number) + 1}]`);

/** The fields that reach the step on a line of the text, as far as the last trial showed them. */
const fieldsAt = (trial) => trial?.shown?.before.fields ?? [];

/** The pipeline tried on the lines after each change: the last good result stays while the text has errors. */
function useTrial(yaml, lines, step, now) {
  const [state, setState] = useState({ trial: null, problems: [], failed: null });
  useEffect(() => {
    if (!yaml.trim()) return undefined;
    const control = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const answer = await post("/api/studio/try", { text: yaml, lines, step, ...(now ? { now } : {}) }, control.signal);
        setState((old) => ({ trial: answer.steps ? answer : old.trial, problems: answer.problems, failed: null }));
      } catch (problem) {
        if (problem.name !== "AbortError") setState((old) => ({ ...old, failed: problem.message }));
      }
    }, PAUSE_MS);
    return () => (clearTimeout(timer), control.abort());
  }, [yaml, lines, step, now]);
  return state;
}

function Formats({ found, onChoose }) {
  if (!found) return null;
  return (
    <div class="formats" role="group" aria-label="What reads these lines">
      {found.candidates.slice(0, 5).map((one) => (
        <button key={one.name} class="chip" aria-pressed={one.name === found.chosen} title={one.about} onClick={() => onChoose(one.name)}>
          {one.kind === "made" ? "a pattern made from the lines" : <>{one.kind} <b>{one.name}</b></>} <small>{percent(one.events ? one.read / one.events : 0)}</small>
        </button>
      ))}
    </div>
  );
}

function Verdict({ problems, trial, failed }) {
  const errors = problems.filter((one) => one.severity === "error").length;
  if (failed) return <span class="tag bad">not tried</span>;
  if (errors) return <span class="tag bad">{plural(errors, "error")}</span>;
  if (!trial) return null;
  const left = trial.steps.length ? trial.steps.at(-1).left : trial.events;
  return <span class="tag good" title={`${Math.round(trial.seconds * 1000)} ms`}>{count(trial.events)} → {plural(left, "event")} · {Math.round(trial.seconds * 1000)} ms</span>;
}

function Problems({ problems, failed, onChoose }) {
  if (!problems.length && !failed) return null;
  return (
    <ul class="problems" aria-live="polite">
      {failed && <li class="error">{failed}</li>}
      {problems.map((one, index) => (
        <li key={index} class={one.severity}>
          <button onClick={() => onChoose(one.line)}>
            <span class="where">{one.line}:{one.column}</span> <b>{one.code}</b> {one.path} {one.message}
            {one.hint && <small>{one.hint}</small>}
          </button>
        </li>
      ))}
    </ul>
  );
}
