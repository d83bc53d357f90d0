// Who is close to a threshold: for each condition on the results of a step with state, the groups that nearly meet it.
import { count, percent, plural, shown, time } from "../shared/format.js";
import { usePolled } from "../shared/live.js";
import { Loading } from "../shared/screen.jsx";

const EVERY_MS = 3000;

export function Thresholds({ api }) {
  const { value: found, error } = usePolled(`${api}/thresholds`, EVERY_MS);
  if (error || !found) return <Loading error={error} />;
  if (!found.length) return <section class="card"><p class="empty">No step has a condition on groups, as a window with `having` or `emit: when`, or `correlate`.</p></section>;
  return found.map((one) => <Condition key={`${one.query} ${one.step} ${one.option} ${one.condition}`} one={one} />);
}

function Condition({ one }) {
  const fields = one.nearest.length ? leaves(one.nearest[0].values).map(([name]) => name) : [];
  const title = `${one.step}: ${one.condition}`;
  return (
    <section class="card">
      <header class="bar"><h2>{title}</h2></header>
      <p class="note">
        {one.line && `Line ${one.line}: `}{one.explanation}.{" "}
        {one.batch !== null && `${plural(one.groups, "group")}${one.complete ? "" : " read until the time was up"}, of which ${count(one.met)} meet the condition. After micro-batch ${one.batch}.`}
      </p>
      {one.failure && <p class="status bad pad">{one.failure}</p>}
      {!one.failure && !fields.length && <p class="empty">{one.batch === null ? "No micro-batch is complete yet." : "No group is on the way to the condition."}</p>}
      {fields.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label={`Groups nearest to ${title}`}>
          <table class="near">
            <thead><tr><th scope="col">share</th>{fields.map((field) => <th scope="col" key={field}>{field}</th>)}</tr></thead>
            <tbody>{one.nearest.map(({ share, values }, index) => (
              <tr key={index}><td><meter value={share} aria-label={`share of group ${index + 1}`} /> {percent(share)}</td>{leaves(values).map(([name, value]) => <td key={name}>{value === null ? <i>null</i> : cell(value)}</td>)}</tr>
            ))}</tbody>
          </table>
        </div>
      )}
    </section>
  );
}

/** Names with dots and values of an object of objects. */
const leaves = (values, prefix = "") => Object.entries(values).flatMap(([name, value]) => (value && typeof value === "object" ? leaves(value, `${prefix}${name}.`) : [[`${prefix}${name}`, value]]));

const INSTANT = /^\d{4}-\d\d-\d\d[T ][\d:.]+(Z|[+-]\d\d:?\d\d)$/;
const cell = (value) => (typeof value === "string" && INSTANT.test(value) ? time(value) : shown(value));
