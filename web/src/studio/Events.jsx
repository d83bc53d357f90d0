// The events before and after the chosen step, its dead letters, and the fields.
import { useState } from "preact/hooks";
import { count, percent, same, shown } from "../shared/format.js";

const MAX_ROWS = 100;

export function Events({ step, trial, hovered, onHover }) {
  const [view, setView] = useState("after");
  const { before, after, letters } = trial.shown;
  const views = {
    before: `Before · ${count(step.incoming)}`,
    after: `After · ${count(step.left)}`,
    dead: `Dead letters · ${count(step.dead)}`,
    fields: `Fields · ${after.fields.length}`,
  };
  const table = { hovered, onHover };
  if (!step.ran) {
    const why = step.spark_reason ? `: ${step.spark_reason}` : "";
    return <section class="card"><p class="empty">Spark runs {step.id} or a step before it{why}. The studio shows the steps before; <code>etl test</code> runs them all.</p></section>;
  }
  return (
    <section class="card events" aria-label={`Events of ${step.id}`}>
      <header class="bar">
        <h2>{step.id} <b>{step.type}</b></h2>
        <div class="tabs" role="tablist" aria-label="Events">
          {Object.entries(views).map(([name, label]) => (
            <button role="tab" key={name} aria-selected={view === name} onClick={() => setView(name)}>{label}</button>
          ))}
        </div>
      </header>
      <div role="tabpanel">
        {view === "before" && <Table fields={before.fields} rows={before.rows} others={null} {...table} />}
        {view === "after" && <Table fields={after.fields} rows={after.rows} others={before} {...table} />}
        {view === "dead" && <Letters letters={letters} />}
        {view === "fields" && <Fields fields={after.fields} before={before.fields} />}
      </div>
    </section>
  );
}

/** ``others``: the events before the step, with which values are compared. */
function Table({ fields, rows, others, hovered, onHover }) {
  if (!rows.length) return <p class="empty">No events.</p>;
  const known = others && new Set(others.fields.map((field) => field.name));
  const earlier = others && new Map(others.rows.map((row) => [row.offset, row.values]));
  const state = (row, name) => {
    if (!others) return "";
    const old = earlier.get(row.offset);
    if (old && name in row.values) return !(name in old) ? " new" : same(old[name], row.values[name]) ? "" : " changed";
    return "";
  };
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Events">
      <table>
        <thead>
          <tr>
            <th scope="col" class="number">line</th>
            {fields.map((field) => (
              <th
                scope="col" key={field.name} title={field.type}
                class={`${known && !known.has(field.name) ? "new" : ""}${hovered === field.name ? " hot" : ""}`}
                onMouseEnter={() => onHover(field.name)} onMouseLeave={() => onHover(null)}
              >
                {field.name}
                <small>{field.type}</small>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, MAX_ROWS).map((row, index) => (
            <tr key={index} class={row.fate ?? ""} title={row.fate === "dead" ? row.reason : row.fate === "filtered" ? "filtered" : undefined}>
              <td class="number">{row.line ?? ""}</td>
              {fields.map((field) => (
                <td key={field.name} class={`${typeof row.values[field.name]}${state(row, field.name)}${hovered === field.name ? " hot" : ""}`}>
                  {field.name in row.values ? shown(row.values[field.name]) : <i>null</i>}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > MAX_ROWS && <p class="note">The first {MAX_ROWS} are shown.</p>}
    </div>
  );
}

function Letters({ letters }) {
  if (!letters.length) return <p class="empty">No dead letters: the step takes every event.</p>;
  const groups = new Map();
  for (const letter of letters) {
    const key = `${letter.code}: ${letter.reason}`;
    groups.set(key, [...(groups.get(key) ?? []), letter]);
  }
  return (
    <div class="letters">
      {[...groups].map(([reason, members]) => (
        <details key={reason} open>
          <summary><b>{count(members.length)} ×</b> {reason}</summary>
          {members.slice(0, 20).map((letter, index) => <pre key={index} tabIndex={0}>{letter.event}</pre>)}
        </details>
      ))}
    </div>
  );
}

function Fields({ fields, before }) {
  const known = new Set(before.map((field) => field.name));
  const removed = before.filter((field) => !fields.some((other) => other.name === field.name));
  return (
    <table class="fields">
      <thead><tr><th scope="col">field</th><th scope="col">type</th><th scope="col">null</th><th scope="col">change</th></tr></thead>
      <tbody>
        {fields.map((field) => (
          <tr key={field.name}>
            <td><code>{field.name}</code></td>
            <td>{field.type}</td>
            <td><meter min="0" max="1" value={field.nulls} aria-label={`null in ${field.name}`} /> {percent(field.nulls)}</td>
            <td>{known.has(field.name) ? "" : <span class="tag new">new</span>}</td>
          </tr>
        ))}
        {removed.map((field) => (
          <tr key={field.name} class="filtered">
            <td><code>{field.name}</code></td><td>{field.type}</td><td /><td><span class="tag">removed</span></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
