// A rule while it is written: its problems under the text, and its own test events on the engine that a pipeline has.
import { useEffect, useRef, useState } from "preact/hooks";
import { post } from "../shared/api.js";
import { count, plural } from "../shared/format.js";
import { Editor } from "../studio/Editor.jsx";

const WAIT_MS = 250;

const EXAMPLE = `name: failed login of root
where: action = 'failed' and user = 'root'
level: high
tests:
  - event: {action: failed, user: root}
  - event: {action: failed, user: ann}
    matches: false
`;

export function RuleEditor() {
  const handle = useRef(null);
  const [text, setText] = useState(EXAMPLE);
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    const control = new AbortController();
    const timer = setTimeout(async () => {
      try {
        setFound(await post("/api/studio/rules", { text }, control.signal));
        setError(null);
      } catch (problem) {
        if (problem.name !== "AbortError") setError(problem.message);
      }
    }, WAIT_MS);
    return () => (clearTimeout(timer), control.abort());
  }, [text]);
  return (
    <section class="card rule-editor">
      <header class="bar"><h2>Rule editor <small>Sigma rules, or rules with `name` and `where`; nothing is saved</small></h2></header>
      <Editor handle={handle} text={text} onChange={setText} problems={found?.problems ?? []} label="Rules, in YAML" />
      {error && <p class="status bad pad" role="alert">{error}</p>}
      {found && <Findings found={found} />}
    </section>
  );
}

function Findings({ found }) {
  const failed = found.tests.filter((one) => one.failure).length;
  return (
    <div aria-live="polite">
      <p class="note">{plural(found.rules, "rule")}, {plural(found.problems.length, "problem")}, {plural(found.tests.length, "test")}{found.all_tests > found.tests.length && ` of ${count(found.all_tests)}`}, {count(failed)} failed</p>
      {found.problems.map((one, index) => <p class="status bad pad" key={index}>line {one.line}: {one.message}</p>)}
      {found.tests.length > 0 && (
        <div class="scroll flat" tabIndex={0} role="region" aria-label="Test events">
          <table>
            <thead><tr><th scope="col">rule</th><th scope="col" class="num">test</th><th scope="col">result</th></tr></thead>
            <tbody>{found.tests.map((one) => <tr key={`${one.line} ${one.number}`}><td>{one.rule} <small>line {one.line}</small></td><td class="num">{one.number}</td><td class={one.failure ? "bad" : ""}>{one.failure ?? "as expected"}</td></tr>)}</tbody>
          </table>
        </div>
      )}
      {found.report.length > 0 && <pre class="file" tabIndex={0} aria-label="Report">{found.report.join("\n")}</pre>}
    </div>
  );
}
