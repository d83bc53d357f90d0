// Dead letters of all pipelines in groups: where and why, an example, and a way to try it with the pipeline as it is now.
import { useEffect, useState } from "preact/hooks";
import { get } from "../shared/api.js";
import { count, time } from "../shared/format.js";
import { Link, apiPath, go, pipelinePath } from "../shared/link.jsx";
import { usePolled, useStatuses } from "../shared/live.js";

export function DeadLetters() {
  const { statuses, error } = useStatuses();
  const [found, setFound] = useState(new Map());
  const some = [...(statuses?.values() ?? [])].filter((one) => one.counters.dead > 0);
  const key = some.map((one) => `${one.name} ${one.counters.dead}`).join(";");
  useEffect(() => {
    for (const { name } of some) get(apiPath(name)).then((one) => setFound((old) => new Map(old).set(name, one.rejected)), () => {});
  }, [key]);
  if (!statuses) return <p class="loading">{error ? error.message : "…"}</p>;
  return (
    <>
      <header class="page-head"><h1>Dead letters</h1></header>
      {!some.length && <section class="card"><p class="empty">No dead letters since the pipelines began to run.</p></section>}
      <div class="stack">
        {some.map(({ name, counters }) => (
          <section class="card" key={name}>
            <header class="bar"><h2><Link to={pipelinePath(name)}>{name}</Link> <small>{count(counters.dead)}</small></h2></header>
            <DeadGroups name={name} rejected={found.get(name) ?? []} />
          </section>
        ))}
      </div>
    </>
  );
}

/** The open dead letters of a pipeline; ``rejected`` are those of the run, for pipelines that write them elsewhere. */
export function DeadGroups({ name, rejected }) {
  const { value } = usePolled(`${apiPath(name)}/dead`, 4000);
  const groups = value?.groups.length ? value.groups : rejected;
  if (!groups.length) return <p class="empty">No dead letters in this run.</p>;
  const ordered = groups.toSorted((one, other) => other.events - one.events);
  return (
    <div class="letters">
      {ordered.map((group) => (
        <article key={`${group.at} ${group.code}`}>
          <h3><b>{count(group.events)} ×</b> <span class="tag bad">{group.code}</span> at {group.at} {group.last && <small>last {time(group.last)}</small>}</h3>
          <p>{group.reason}</p>
          {group.example && <pre tabIndex={0}>{group.example}</pre>}
          {group.example && <button class="quiet small" onClick={() => tryNow(name, group.example)}>Try with the pipeline as it is now</button>}
        </article>
      ))}
      <p class="note">To send them through the mended pipeline, once each: stop {name}, then <code>etl dead replay FILE --state FOLDER</code>, with its file and its folder in the state of the server.</p>
    </div>
  );
}

/** Open the studio with the pipeline's text and the event. */
async function tryNow(name, example) {
  const file = await get(`${apiPath(name)}/file`);
  for (const [key, value] of Object.entries({ yaml: file.text, name, lines: example, origin: "dead letters" })) sessionStorage.setItem(`sluice-studio-${key}`, JSON.stringify(value));
  go("/studio");
}
