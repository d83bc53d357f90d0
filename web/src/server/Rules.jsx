// Rules of all pipelines: how often each matched, on how many events it was tried, and what it cost.
import { useEffect, useState } from "preact/hooks";
import { get } from "../shared/api.js";
import { count } from "../shared/format.js";
import { Link, apiPath, pipelinePath } from "../shared/link.jsx";
import { useStatuses } from "../shared/live.js";
import { Loading, useTitle } from "../shared/screen.jsx";
import { RuleEditor } from "./RuleEditor.jsx";

const EVERY_MS = 3000;
const MAX_ROWS = 300;

export function Rules() {
  const { statuses, error } = useStatuses();
  const [rows, setRows] = useState(null);
  const [order, setOrder] = useState("matches");
  const [text, setText] = useState("");
  const names = [...(statuses?.keys() ?? [])].sort().join("\n");
  useEffect(() => {
    if (!statuses) return undefined;
    const read = async () => {
      const found = await Promise.all((names ? names.split("\n") : []).map((name) => get(apiPath(name)).catch(() => null)));
      setRows(found.filter(Boolean).flatMap(rulesOf));
    };
    read();
    const timer = setInterval(read, EVERY_MS);
    return () => clearInterval(timer);
  }, [names, !statuses]);
  useTitle("Rules");
  if (!rows) return <Loading error={error} />;
  const shown = rows.filter((row) => row.rule.toLowerCase().includes(text.toLowerCase())).sort((one, other) => other[order] - one[order]);
  const sorted = (field) => ({ "aria-sort": order === field ? "descending" : "none" });
  return (
    <>
      <header class="page-head">
        <h1>Rules</h1><span class="grow" />
        <input type="search" class="search" placeholder="Filter" aria-label="Filter by name" value={text} onInput={(event) => setText(event.target.value)} />
      </header>
      {!rows.length ? (
        <section class="card"><p class="empty">No step `rules` has counted yet.</p></section>
      ) : (
        <section class="card"><div class="scroll flat" tabIndex={0} role="region" aria-label="Rules">
          <table>
            <thead><tr><th scope="col">rule</th><th scope="col">pipeline, step</th>
              {["matches", "tried", "seconds"].map((field) => <th scope="col" class="num" key={field} {...sorted(field)}><button class="plain" onClick={() => setOrder(field)}>{field}{order === field ? " ↓" : ""}</button></th>)}
            </tr></thead>
            <tbody>{shown.slice(0, MAX_ROWS).map((row) => (
              <tr key={`${row.pipeline} ${row.step} ${row.rule}`}><td>{row.rule}</td><td><Link to={pipelinePath(row.pipeline)}>{row.pipeline}</Link> <small>{row.step}</small></td><td class="num">{count(row.matches)}</td><td class="num">{count(row.tried)}</td><td class="num">{row.seconds.toFixed(3)}</td></tr>
            ))}</tbody>
          </table>
        </div></section>
      )}
      <RuleEditor />
    </>
  );
}

function rulesOf(pipeline) {
  return pipeline.steps.filter((step) => step.measured.matches ?? step.measured.tried).flatMap(({ id, measured }) => {
    const names = new Set([...Object.keys(measured.matches ?? {}), ...Object.keys(measured.tried ?? {}), ...Object.keys(measured.seconds ?? {})]);
    const number = (field, rule) => measured[field]?.[rule] ?? 0;
    return [...names].map((rule) => ({ pipeline: pipeline.name, step: id, rule, matches: number("matches", rule), tried: number("tried", rule), seconds: number("seconds", rule) }));
  });
}
