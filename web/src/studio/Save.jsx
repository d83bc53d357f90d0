// Saving: into the folder of `etl studio`, or as a pipeline of the server; with a test made of the lines.
import { useRef, useState } from "preact/hooks";
import { post, put } from "../shared/api.js";
import { Link, apiPath, pipelinePath } from "../shared/link.jsx";

const stem = (name) => name.replace(/\.ya?ml$/, "").replace(/[^A-Za-z0-9_-]+/g, "-").replace(/^[^A-Za-z]+/, "") || "pipeline";

export function Save({ about, yaml, lines, name: given, now }) {
  const dialog = useRef(null);
  const [message, setMessage] = useState(null);
  const [exists, setExists] = useState(false);
  const [withTest, setWithTest] = useState(true);
  const [test, setTest] = useState(null);
  const [deployed, setDeployed] = useState(null);

  async function open() {
    setMessage(null);
    setDeployed(null);
    setTest(null);
    dialog.current.showModal();
    if (lines.trim()) setTest(await post("/api/studio/test", { text: yaml, lines, name: stem(about.file?.name ?? "pipeline"), ...(now ? { now } : {}) }).catch((error) => ({ error: error.message })));
  }

  async function save(name) {
    const files = { [`${stem(name)}.yaml`]: yaml };
    if (withTest && typeof test === "string") files[`${stem(name)}_test.yaml`] = test;
    const { written } = await post("/api/studio/save", { files, replace: exists });
    setMessage(`written: ${written.join(", ")}`);
    setExists(false);
  }

  async function deploy(name) {
    const full = name.includes("/") ? name : `default/${name}`;
    const status = await put(apiPath(full), yaml);
    setDeployed(status.name);
    setMessage(status.refused ? `refused: ${status.refused.reason}` : `version ${status.accepted_version} is ${status.status}`);
  }

  const submit = async (event) => {
    event.preventDefault();
    const name = new FormData(event.target).get("name");
    try {
      await (about.server ? deploy(name) : save(name));
    } catch (error) {
      setMessage([error.message, ...(error.problems ?? []).map((one) => `${one.line}:${one.column} ${one.message}`)].join("\n"));
      setExists(error.message.includes("exists already"));
    }
  };
  const verb = about.server ? "Deploy" : exists ? "Replace" : "Save";
  return (
    <>
      <button class="primary" disabled={!yaml.trim()} onClick={open}>{about.server ? "Deploy…" : "Save…"}</button>
      <dialog ref={dialog} aria-label={verb}>
        <form onSubmit={submit}>
          <h2>{about.server ? "Deploy the pipeline" : "Save the pipeline"}</h2>
          {about.server ? <p>As <code>namespace/name</code>. A pipeline of this name goes on with the new version, on its state.</p> : <p>Into <code>{about.folder}</code>.</p>}
          <label>Name<input name="name" required pattern="[A-Za-z][A-Za-z0-9_.\-\/]*" defaultValue={given || stem(about.file?.kind === "pipeline" ? about.file.name : "pipeline")} autocomplete="off" /></label>
          {!about.server && typeof test === "string" && (
            <>
              <label class="check"><input type="checkbox" checked={withTest} onChange={(event) => setWithTest(event.target.checked)} /> with a test made of the lines</label>
              {withTest && <pre class="test" tabIndex={0}>{test}</pre>}
            </>
          )}
          {!about.server && test?.error && <p class="note">No test: {test.error}</p>}
          {message && <p role="status" class="message">{message}{deployed && <> · <Link to={pipelinePath(deployed)}>open {deployed}</Link></>}</p>}
          <footer class="bar">
            <button class="primary">{verb}</button>
            <button type="button" class="quiet" onClick={() => dialog.current.close()}>Close</button>
          </footer>
        </form>
      </dialog>
    </>
  );
}
