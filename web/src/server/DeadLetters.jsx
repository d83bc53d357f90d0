// Dead letters of all pipelines in groups: where and why, an example, ways to try it with the pipeline as it is now and to replay it.
import { useEffect, useState } from "preact/hooks";
import { download, get, post } from "../shared/api.js";
import { count, plural, time } from "../shared/format.js";
import { Link, apiPath, go, pipelinePath } from "../shared/link.jsx";
import { usePolled, useStatuses } from "../shared/live.js";
import { Loading, useTitle } from "../shared/screen.jsx";
import { Stopped } from "../studio/Lines.jsx";
import { focusAtStart } from "../shared/focus.js";

export function DeadLetters() {
  const { statuses, error } = useStatuses();
  const [found, setFound] = useState(new Map());
  const all = [...(statuses?.values() ?? [])];
  const stored = useStored(all.map((one) => one.name));
  const some = all.filter((one) => one.counters.dead > 0 || stored.has(one.name));
  const key = some.map((one) => `${one.name} ${one.counters.dead}`).join(";");
  useEffect(() => {
    for (const { name } of some) get(apiPath(name)).then((one) => setFound((old) => new Map(old).set(name, one.rejected)), () => {});
  }, [key]);
  useTitle("Dead letters");
  if (!statuses) return <Loading error={error} />;
  return (
    <>
      <header class="page-head"><h1>Dead letters</h1></header>
      {!some.length && <section class="card"><p class="empty">No dead letters.</p></section>}
      <div class="stack">
        {some.map(({ name, counters }) => (
          <section class="card" key={name}>
            <header class="bar"><h2><Link to={pipelinePath(name)}>{name}</Link> {counters.dead > 0 && <small>{count(counters.dead)} in this run</small>}</h2></header>
            <DeadGroups name={name} rejected={found.get(name) ?? []} />
          </section>
        ))}
      </div>
    </>
  );
}

const RETRY_MS = 2000;

/** Those of the pipelines that have stored letters or whose letters cannot be read. Each is asked until its answer is complete. */
function useStored(names) {
  const [stored, setStored] = useState(new Set());
  useEffect(() => {
    const control = new AbortController();
    const { signal } = control;
    const ask = async (name) => {
      const one = await get(`${apiPath(name)}/dead`, signal).catch(() => null);
      if (signal.aborted) return;
      if (!one || one.groups.length) setStored((old) => new Set(old).add(name));
      else if (!one.complete) setTimeout(() => ask(name), RETRY_MS);
    };
    names.forEach(ask);
    return () => control.abort();
  }, [names.join("\n")]);
  return stored;
}

/** The open dead letters of a pipeline; ``rejected`` are those of the run, for pipelines that write them elsewhere. */
export function DeadGroups({ name, rejected }) {
  const { value, error } = usePolled(`${apiPath(name)}/dead`, 4000);
  const isStored = Boolean(value?.groups.length);
  const groups = isStored ? value.groups : rejected;
  const trouble = error && <p class="status bad" role="status">{error.message}</p>;
  if (!groups.length) return trouble || <p class="empty">No dead letters.</p>;
  const ordered = groups.toSorted((one, other) => other.events - one.events);
  return (
    <div class="letters">
      {trouble}
      {ordered.map((group) => (
        <article key={`${group.at} ${group.code}`}>
          <h3><b>{count(group.events)} ×</b> <span class="tag bad">{group.code}</span> at {group.at} {group.last && <small>last {time(group.last)}</small>}</h3>
          <p>{group.reason}</p>
          {group.example && <pre tabIndex={0}>{group.stop ? <Stopped row={{ text: group.example, stop: group.stop }} /> : group.example}</pre>}
          <span class="actions">
            {group.example && <button class="quiet small" onClick={() => tryNow(name, group.example)}>Try with the pipeline as it is now</button>}
            {isStored && <Settle name={name} letters={group.events} filter={{ at: group.at, code: group.code }} />}
          </span>
          {isStored && <Letters name={name} filter={{ at: group.at, code: group.code }} />}
        </article>
      ))}
      {isStored && !value.complete && <p class="note">Still counting: the numbers grow until all letters are read.</p>}
      {isStored && <p class="note">A replay stops {name} after its micro-batch, sends the letters through the pipeline as it is now, once each, and lets it go on. Its messages tell what was delivered; what fails again is a dead letter again. Dropped letters are settled: no replay gets them.</p>}
    </div>
  );
}

const queryOf = (filter) => new URLSearchParams(filter).toString();

/** Buttons that replay, export and drop the letters of a group; a drop asks first. */
function Settle({ name, letters, filter }) {
  const [state, setState] = useState({});
  const path = (verb) => `${apiPath(name)}/dead/${verb}?${queryOf(filter)}`;
  const settle = (verb, done) => post(path(verb)).then(() => setState({ done }), (error) => setState({ error: error.message }));
  const save = () => download(path("export")).catch((error) => setState({ error: error.message }));
  if (state.asks) {
    return (
      <>
        <button class="danger small" onClick={() => settle("drop", "Drop begun")}>Drop {plural(letters, "letter")}: no replay gets them</button>
        <button key="keep" class="quiet small" ref={focusAtStart} onClick={() => setState({ asks: false })}>Keep</button>
      </>
    );
  }
  return (
    <>
      <button class="quiet small" disabled={state.done} onClick={() => settle("replay", "Replay begun")}>{state.done ?? `Replay ${plural(letters, "letter")}`}</button>
      <button class="quiet small" onClick={save}>Export</button>
      {!state.done && <button key="drop" class="quiet small" ref={state.asks === false ? focusAtStart : undefined} onClick={() => setState({ asks: true })}>Drop…</button>}
      {state.error && <span class="status bad" role="alert">{state.error}</span>}
    </>
  );
}

const PAGE_LETTERS = 50;

/** The letters of a group page by page, oldest first, once they are asked for. */
function Letters({ name, filter }) {
  const [state, setState] = useState({ letters: [] });
  const more = async () => {
    const letters = [];
    let page = { next: state.next };
    try {
      do {
        const after = page.next ? { after: page.next } : {};
        page = await get(`${apiPath(name)}/dead/letters?${queryOf({ ...filter, limit: PAGE_LETTERS, ...after })}`);
        letters.push(...page.letters);
      } while (!page.is_last && !letters.length); // a page ends after two seconds, with what it has
      setState({ letters, next: page.next, isLast: page.is_last, isOpen: true });
    } catch (error) {
      setState({ letters: [], isOpen: true, error: error.message }); // the next click begins with the first page
    }
  };
  return (
    <details open={state.isOpen} onToggle={(event) => event.currentTarget.open && !state.isOpen && more()}>
      <summary>Letters</summary>
      <ol class="letter-list">
        {state.letters.map((one, index) => (
          <li key={index}>
            <small>{time(one.time)} · {one.source ?? ""} {one.partition ?? ""} {one.offset ?? ""}</small> {one.reason}
            <pre tabIndex={0}>{one.event}</pre>
          </li>
        ))}
      </ol>
      {state.error && <p class="status bad" role="alert">{state.error}</p>}
      {state.isOpen && !state.isLast && <button class="quiet small" onClick={more}>{state.error ? "From the first" : "Next letters"}</button>}
      {state.isLast && <p class="note">These are the last ones.</p>}
    </details>
  );
}

/** Open the studio with the pipeline's text and the event. */
async function tryNow(name, example) {
  const file = await get(`${apiPath(name)}/file`);
  for (const [key, value] of Object.entries({ yaml: file.text, name, lines: example, origin: "dead letters" })) sessionStorage.setItem(`sluice-studio-${key}`, JSON.stringify(value));
  go("/studio");
}
