// Parts that several screens show: the state of a pipeline, a line of its rates, and buttons that change it.
import { useState } from "preact/hooks";
import { del, post } from "../shared/api.js";
import { apiPath } from "../shared/link.jsx";
import { focusAtStart } from "../shared/focus.js";

const KINDS = { running: "good", ended: "", starting: "busy", stopping: "busy", waiting: "bad", failed: "bad", refused: "bad", stopped: "", paused: "warn", replaying: "busy", dropping: "busy" };

export const Status = ({ status }) => <span class={`tag ${KINDS[status] ?? ""}`}><i class="dot" aria-hidden="true" />{status}</span>;

/** A small line over the last samples; it needs no axes: the number stands beside it. */
export function Sparkline({ values, label }) {
  if (values.length < 2) return <svg class="spark" viewBox="0 0 100 24" aria-hidden="true" />;
  const top = Math.max(...values, 1e-9);
  const points = values.map((value, index) => `${((index / (values.length - 1)) * 100).toFixed(1)},${(22 - (value / top) * 20).toFixed(1)}`);
  return (
    <svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label={label}>
      <polygon points={`0,24 ${points.join(" ")} 100,24`} />
      <polyline points={points.join(" ")} />
    </svg>
  );
}

const VERBS = { running: ["pause", "restart", "stop"], starting: ["stop"], waiting: ["restart", "stop"], paused: ["start", "stop"], stopping: [], refused: [], replaying: ["stop"], dropping: [] };

/** The changes that make sense for a state. */
export function Actions({ one, compact, onRemoved }) {
  const [error, setError] = useState(null);
  const [sure, setSure] = useState(null); // false: it was asked, and is kept
  const run = (work) => work.then(() => setError(null), (problem) => setError(problem.message));
  const verbs = VERBS[one.status] ?? ["start"];
  return (
    <span class="actions">
      {verbs.map((verb) => <button key={verb} class="quiet small" aria-label={`${verb} ${one.name}`} onClick={() => run(post(`${apiPath(one.name)}/${verb}`))}>{verb}</button>)}
      {!compact && !sure && <button key="remove" class="quiet small" ref={sure === false ? focusAtStart : undefined} onClick={() => setSure(true)}>remove</button>}
      {!compact && sure && <button key="sure" class="danger small" onClick={() => run(del(apiPath(one.name)).then(onRemoved))}>remove its file and stop it</button>}
      {!compact && sure && <button key="keep" class="quiet small" ref={focusAtStart} onClick={() => setSure(false)}>keep it</button>}
      {error && <span class="status bad" role="alert">{error}</span>}
    </span>
  );
}

/** Why a pipeline does not do what it should. */
export function Trouble({ one }) {
  if (one.refused) return <span class="trouble">refused: {one.refused.reason}</span>;
  return one.error ? <span class="trouble">{one.error}</span> : null;
}
