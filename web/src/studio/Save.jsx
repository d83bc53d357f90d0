// Saving the pipeline as a file of the folder in which the command runs.
import { useRef, useState } from "preact/hooks";
import { post } from "../shared/api.js";

export function Save({ about, yaml }) {
  const dialog = useRef(null);
  const [message, setMessage] = useState(null);
  const [exists, setExists] = useState(false);
  const save = async (event) => {
    event.preventDefault();
    const name = new FormData(event.target).get("name").replace(/\.ya?ml$/, "");
    try {
      const { written } = await post("/api/studio/save", { files: { [`${name}.yaml`]: yaml }, replace: exists });
      setMessage(`written: ${written.join(", ")}`);
      setExists(false);
    } catch (error) {
      setMessage(error.message);
      setExists(error.message.includes("exists already"));
    }
  };
  return (
    <>
      <button class="primary" disabled={!yaml.trim()} onClick={() => (setMessage(null), dialog.current.showModal())}>Save…</button>
      <dialog ref={dialog} aria-label="Save">
        <form onSubmit={save}>
          <h2>Save the pipeline</h2>
          <p>Into <code>{about.folder}</code>.</p>
          <label>Name<input name="name" required pattern="[A-Za-z0-9][A-Za-z0-9_.\-]*" defaultValue={about.file?.kind === "pipeline" ? about.file.name : "pipeline"} autocomplete="off" /></label>
          {message && <p role="status">{message}</p>}
          <footer class="bar">
            <button class="primary">{exists ? "Replace" : "Save"}</button>
            <button type="button" class="quiet" onClick={() => dialog.current.close()}>Close</button>
          </footer>
        </form>
      </dialog>
    </>
  );
}
