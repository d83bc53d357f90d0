// One pipeline: its graph with live rates, what the chosen node did, charts, dead letters, versions, messages, and its file.
import { useEffect, useMemo, useState } from "preact/hooks";
import { get, post } from "../shared/api.js";
import { bytes, compact, count, plural, rate, seconds, shown, time } from "../shared/format.js";
import { Link, apiPath, go } from "../shared/link.jsx";
import { usePolled, useRates } from "../shared/live.js";
import { Chart, perSecond } from "./Chart.jsx";
import { DeadGroups } from "./DeadLetters.jsx";
import { difference } from "./difference.js";
import { Graph } from "./Graph.jsx";
import { Loading, useTitle } from "../shared/screen.jsx";
import { Actions, Status, Trouble } from "./parts.jsx";
import { Thresholds } from "./Thresholds.jsx";

export function Pipeline({ name }) {
  const api = apiPath(name);
  const { value: one, error } = usePolled(api);
  const { value: graph, at } = usePolled(`${api}/graph`);
  const [node, setNode] = useState(null);
  const [view, setView] = useState("graph");
  const rates = useRates(useMemo(() => graph && new Map(graph.nodes.map((each) => [each.id, each.events])), [graph]), at);
  useTitle(name);
  if (!one) return <Loading error={error} />;
  const views = { graph: "Graph", charts: "Charts", near: "Near thresholds", dead: `Dead letters · ${compact(one.counters.dead)}`, versions: "Versions", messages: "Messages", file: "File" };
  return (
    <>
      <header class="page-head">
        <h1><Link to="/">Pipelines</Link> / {name}</h1>
        <Status status={one.status} />
        <dl class="figures">
          <div><dt>in/s</dt><dd>{rate(one.rates.read_per_second)}</dd></div>
          <div><dt>out/s</dt><dd>{rate(one.rates.delivered_per_second)}</dd></div>
          <div class={one.counters.dead ? "bad" : ""}><dt>dead</dt><dd>{compact(one.counters.dead)}</dd></div>
          <div><dt>lag</dt><dd>{seconds(one.counters.lag_seconds)}</dd></div>
        </dl>
        <span class="grow" />
        <Actions one={one} onRemoved={() => go("/")} />
      </header>
      <Trouble one={one} />
      {error && <p class="status bad" role="status">{error.message}</p>}
      <div class="tabs" role="tablist" aria-label="Views">
        {Object.entries(views).map(([key, label]) => <button role="tab" key={key} aria-selected={view === key} onClick={() => setView(key)}>{label}</button>)}
      </div>
      <div role="tabpanel" class="stack">
        {view === "graph" && graph && (
          <section class="card pad">
            {graph.nodes.length ? <Graph graph={graph} rates={rates} chosen={node} onChoose={setNode} /> : <p class="empty">No accepted version.</p>}
          </section>
        )}
        {view === "graph" && <Node one={one} id={node} />}
        {view === "graph" && node && <Samples key={node} api={api} name={node.slice(node.indexOf(":") + 1)} />}
        {view === "charts" && <Charts api={api} />}
        {view === "near" && <Thresholds api={api} />}
        {view === "dead" && <section class="card"><DeadGroups name={name} rejected={one.rejected} /></section>}
        {view === "versions" && <Versions api={api} />}
        {view === "messages" && <Messages api={api} />}
        {view === "file" && <File api={api} one={one} />}
      </div>
    </>
  );
}

/** What waits at a source: "1,234 events, 98 KiB waiting, the oldest for 5 s". */
function behind(each) {
  const amounts = [each.backlog_events !== null && plural(each.backlog_events, "event"), each.backlog_bytes !== null && bytes(each.backlog_bytes)].filter(Boolean);
  if (!amounts.length) return "";
  return `${amounts.join(", ")} waiting${each.backlog_seconds ? `, the oldest for ${seconds(each.backlog_seconds)}` : ""}`;
}

/** The counters of a source, of the steps of a stream, or of a sink. */
function Node({ one, id }) {
  const [kind, ...rest] = (id ?? "").split(":");
  const name = rest.join(":");
  const sources = id ? one.sources.filter((each) => kind === "source" && each.name === name) : one.sources;
  const steps = id ? one.steps.filter((each) => kind === "stream" && each.stream === name) : one.steps;
  const sinks = id ? one.sinks.filter((each) => kind === "sink" && each.name === name) : one.sinks;
  return (
    <section class="card"><div class="scroll flat" tabIndex={0} role="region" aria-label="Counters">
      <table class="counters">
        <thead><tr><th scope="col">{id ? `${kind} ${name}` : "all nodes; choose one in the graph"}</th><th scope="col" class="num">in</th><th scope="col" class="num">out</th><th scope="col" class="num">filtered</th><th scope="col" class="num">dead</th><th scope="col" class="num">seconds</th><th scope="col">more</th></tr></thead>
        <tbody>
          {sources.map((each) => <tr key={each.name}><td><b>{each.name}</b> {each.type}</td><td class="num" /><td class="num">{count(each.read)}</td><td class="num" /><td class="num">{count(each.dead)}</td><td class="num" /><td>{[behind(each), pairs(each.dropped)].filter(Boolean).join(", ")}</td></tr>)}
          {steps.map((each) => <tr key={each.id}><td><b>{each.stream}[{each.index}]</b> {each.type}</td><td class="num">{count(each.incoming)}</td><td class="num">{count(each.left)}</td><td class="num">{count(each.filtered)}</td><td class={`num${each.dead ? " bad" : ""}`}>{count(each.dead)}</td><td class="num">{each.seconds.toFixed(2)}</td><td>{each.line && <small>line {each.line}</small>}</td></tr>)}
          {sinks.map((each) => <tr key={each.name}><td><b>{each.name}</b> {each.type}</td><td class="num">{count(each.incoming)}</td><td class="num">{count(each.delivered)}</td><td class="num">{count(each.filtered)}</td><td class={`num${each.dead ? " bad" : ""}`}>{count(each.dead)}</td><td class="num">{each.seconds.toFixed(2)}</td><td>{[each.retries && plural(each.retries, "retry"), each.spooled && `${count(each.spooled)} spooled`, pairs(each.flushes)].filter(Boolean).join(", ")}</td></tr>)}
        </tbody>
      </table>
    </div></section>
  );
}

/** The value of a field such as ``source.ip`` in an event of objects. */
const at = (event, field) => (field in event ? event[field] : field.split(".").reduce((value, key) => value?.[key], event));

/** The last events at the chosen node, as they pass: the pipeline never waits for who looks. */
function Samples({ api, name }) {
  const { value, error } = usePolled(`${api}/samples?stream=${encodeURIComponent(name)}&limit=25`, 2000);
  const fields = Object.entries(value?.fields ?? {});
  return (
    <section class="card">
      <header class="bar"><h2>Events at {name} <small>the last ones that passed while you look</small></h2></header>
      {error && <p class="status bad pad">{error.message}</p>}
      {!error && !value?.events.length && <p class="empty">Waiting for events…</p>}
      {value?.events.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Events">
          <table>
            <thead><tr>{fields.map(([field, type]) => <th scope="col" key={field}>{field}<small>{type}</small></th>)}</tr></thead>
            <tbody>{value.events.toReversed().map(({ id, event }) => (
              <tr key={id}>{fields.map(([field]) => <td key={field}>{at(event, field) === undefined || at(event, field) === null ? <i>null</i> : shown(at(event, field))}</td>)}</tr>
            ))}</tbody>
          </table>
        </div>
      )}
    </section>
  );
}

const pairs = (values) => Object.entries(values).map(([key, value]) => `${key} ${count(value)}`).join(", ");

function Charts({ api }) {
  const { value, error } = usePolled(`${api}/history`, 2000);
  if (!value) return <Loading error={error} />;
  const speed = (name, field, colour) => ({ name, colour, values: perSecond(value.time, value[field]) });
  return (
    <section class="card charts">
      <Chart title="Events a second" unit="" time={value.time} series={[speed("in", "read", "--accent"), speed("out", "delivered", "--good"), speed("dead", "dead", "--bad")]} />
      <Chart title="Lag, in seconds" unit=" s" time={value.time} series={[{ name: "lag", colour: "--warn", values: value.lag_seconds }]} />
    </section>
  );
}

function Versions({ api }) {
  const { value: versions, error } = usePolled(`${api}/versions`, 5000);
  const [pair, setPair] = useState(null);
  const [message, setMessage] = useState("");
  if (!versions) return <Loading error={error} />;
  if (!versions.length) return <section class="card"><p class="empty">No accepted version.</p></section>;
  const compare = async (number) => {
    const [old, now] = await Promise.all([get(`${api}/file?version=${number}`), get(`${api}/file`)]);
    setPair({ number, against: now.number, rows: difference(old.text, now.text) });
    setMessage("");
  };
  const explain = (problem) => setMessage(problem.message);
  const rollback = (number) => post(`${api}/rollback?to=${number}`).then(() => setMessage(`version ${number} runs again, as a new version`), explain);
  return (
    <>
      <section class="card">
        <table><thead><tr><th scope="col">version</th><th scope="col">accepted</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
          <tbody>{versions.toReversed().map((one) => (
            <tr key={one.number}><td>{one.number} {one.running && <span class="tag good">runs</span>}</td><td>{time(one.time)}</td>
              <td class="actions"><button class="quiet small" onClick={() => compare(one.number).catch(explain)}>compare with now</button>{!one.running && <button class="quiet small" onClick={() => rollback(one.number)}>run again</button>}</td></tr>
          ))}</tbody></table>
        {message && <p class="note" role="status">{message}</p>}
      </section>
      {pair && <section class="card"><header class="bar"><h2>From version {pair.number} to {pair.against}</h2></header><Difference rows={pair.rows} /></section>}
    </>
  );
}

const Difference = ({ rows }) => (rows.every((row) => row.sign === " ") ? <p class="empty">No difference.</p> : <pre class="difference" tabIndex={0}>{rows.map((row, index) => <span key={index} class={row.sign === "+" ? "plus" : row.sign === "-" ? "minus" : ""}>{row.sign} {row.text}{"\n"}</span>)}</pre>);

function Messages({ api }) {
  const { value, error } = usePolled(`${api}/logs?limit=200`, 2000);
  if (!value) return <Loading error={error} />;
  if (!value.length) return <section class="card"><p class="empty">No messages.</p></section>;
  return (
    <section class="card"><ol class="messages" tabIndex={0} aria-label="Messages">
      {value.toReversed().map((one) => <li key={one.id} class={one.level}><time>{time(one.time)}</time> <b>{one.event}</b> {one.message}</li>)}
    </ol></section>
  );
}

function File({ api, one }) {
  const [file, setFile] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => void get(`${api}/file`).then((found) => (setFile(found), setError(null)), setError), [api, one.accepted_version]);
  if (!file || error) return <Loading error={error} />;
  const open = () => {
    sessionStorage.setItem("sluice-studio-yaml", JSON.stringify(file.text));
    sessionStorage.setItem("sluice-studio-name", JSON.stringify(one.name));
    go("/studio");
  };
  return (
    <section class="card">
      <header class="bar"><h2>Version {file.number}</h2><span class="grow" />{file.language === "yaml" && <button onClick={open}>Open in the studio</button>}</header>
      <pre class="file" tabIndex={0}>{file.text}</pre>
    </section>
  );
}
