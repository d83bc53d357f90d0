// All pipelines: state, rates, lag, the last minutes as a line, the last error.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Link, pipelinePath } from "../shared/link.jsx";
import { useStatuses } from "../shared/live.js";
import { compact, plural, rate, seconds } from "../shared/format.js";
import { Loading, useTitle } from "../shared/screen.jsx";
import { Actions, Sparkline, Status, Trouble } from "./parts.jsx";

const SAMPLES = 60;
const MAX_REFUSED = 20;

export function Pipelines() {
  const { statuses, refused, error } = useStatuses();
  const [text, setText] = useState("");
  const [onlyBad, setOnlyBad] = useState(false);
  const lines = useHistory(statuses);
  const all = useMemo(() => [...(statuses?.values() ?? [])].sort((a, b) => a.name.localeCompare(b.name)), [statuses]);
  useTitle("Pipelines");
  if (!statuses) return <Loading error={error} />;
  const bad = all.filter(isInTrouble).length;
  const shown = all.filter((one) => one.name.includes(text) && (!onlyBad || isInTrouble(one)));
  const total = (field) => shown.reduce((sum, one) => sum + one.rates[field], 0);
  return (
    <>
      <header class="page-head">
        <h1>Pipelines</h1>
        <dl class="figures">
          <div><dt>pipelines</dt><dd>{statuses.size}</dd></div>
          <div><dt>in/s</dt><dd>{rate(total("read_per_second"))}</dd></div>
          <div><dt>out/s</dt><dd>{rate(total("delivered_per_second"))}</dd></div>
          <div class={bad ? "bad" : ""}><dt>in trouble</dt><dd>{bad}</dd></div>
        </dl>
        {(bad > 0 || onlyBad) && <button class="quiet small" aria-pressed={onlyBad} onClick={() => setOnlyBad(!onlyBad)}>only those in trouble</button>}
        <span class="grow" />
        {statuses.size > 5 && <input type="search" class="search" placeholder="Filter" aria-label="Filter by name" value={text} onInput={(event) => setText(event.target.value)} />}
        <Link to="/studio" class="button primary">New pipeline</Link>
      </header>
      {error && <p class="status bad" role="status">no connection to the server: {error.message}</p>}
      <RefusedFiles files={Object.entries(refused)} />
      {statuses.size === 0 ? (
        <section class="card empty-card">
          <h2>No pipelines yet</h2>
          <p>Make one in the <Link to="/studio">studio</Link> from some lines of a log, put a file into the server's folder, or run <code>etl deploy FILE</code>.</p>
        </section>
      ) : (
        <section class="card"><div class="scroll flat" tabIndex={0} role="region" aria-label="Pipelines">
          <table class="pipelines">
            <thead><tr><th scope="col">pipeline</th><th scope="col">state</th><th scope="col" class="num">in/s</th><th scope="col" class="num">out/s</th><th scope="col" class="num">dead</th><th scope="col" class="num">lag</th><th scope="col" class="trend">last minute</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
            <tbody>{shown.map((one) => <Row key={one.name} one={one} values={lines.get(one.name) ?? []} />)}</tbody>
          </table>
        </div></section>
      )}
      {(text || onlyBad) && <p class="note">{plural(shown.length, "pipeline")}{text && ` with “${text}”`}{onlyBad && " in trouble"}.</p>}
    </>
  );
}

/** Files of the server's folder that are not pipelines, with the reasons. */
const RefusedFiles = ({ files }) => files.length > 0 && (
  <section class="card refused-files" role="status">
    <h2>{plural(files.length, "file")} that {files.length === 1 ? "does" : "do"} not run</h2>
    <ul>{files.slice(0, MAX_REFUSED).map(([file, reason]) => <li key={file}><code>{file}</code> <span class="trouble">{reason}</span></li>)}</ul>
    {files.length > MAX_REFUSED && <p class="note">and {files.length - MAX_REFUSED} more</p>}
  </section>
);

const isInTrouble = (one) => ["failed", "waiting", "refused"].includes(one.status) || Boolean(one.refused || one.error);

function Row({ one, values }) {
  const [namespace, name] = one.name.split("/");
  return (
    <tr>
      <td><Link to={pipelinePath(one.name)} class="name"><small>{namespace}/</small>{name}</Link>{one.description && <small class="about">{one.description}</small>}<Trouble one={one} /></td>
      <td><Status status={one.status} /></td>
      <td class="num" data-label="in/s">{rate(one.rates.read_per_second)}</td>
      <td class="num" data-label="out/s">{rate(one.rates.delivered_per_second)}</td>
      <td class={`num${one.counters.dead ? " bad" : ""}`} data-label="dead">{compact(one.counters.dead)}</td>
      <td class="num" data-label="lag">{seconds(one.counters.lag_seconds)}</td>
      <td class="trend"><Sparkline values={values} label={`events a second of ${one.name}`} /></td>
      <td><Actions one={one} compact /></td>
    </tr>
  );
}

/** The rates of the last samples, one a second, as this page has seen them. */
function useHistory(statuses) {
  const lines = useRef(new Map());
  const latest = useRef(statuses);
  const [, redraw] = useState(0);
  latest.current = statuses;
  useEffect(() => {
    const timer = setInterval(() => {
      for (const [name, one] of latest.current ?? []) lines.current.set(name, [...(lines.current.get(name) ?? []), one.rates.read_per_second].slice(-SAMPLES));
      redraw((number) => number + 1);
    }, 1000);
    return () => clearInterval(timer);
  }, []);
  return lines.current;
}
