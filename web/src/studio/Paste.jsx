// Where lines come from: pasted, dropped as a file, or a sample that comes with the package.
import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../shared/api.js";

const MAX_BYTES = 2 << 20; // the server takes no more of a file either
const GZIP = [0x1f, 0x8b];

/** The beginning of a file as text, also of one that gzip has compressed. */
async function readFile(file) {
  const head = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  const packed = head[0] === GZIP[0] && head[1] === GZIP[1];
  const stream = packed ? file.stream().pipeThrough(new DecompressionStream("gzip")) : file.slice(0, MAX_BYTES).stream();
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (text.length < MAX_BYTES) {
    const { done, value } = await reader.read();
    if (done) return text;
    text += value;
  }
  reader.cancel();
  return text.slice(0, text.lastIndexOf("\n") + 1) || text;
}

export function Paste({ text, onLines, onCancel }) {
  const [value, setValue] = useState(text);
  const [over, setOver] = useState(false);
  const [samples, setSamples] = useState([]);
  const input = useRef(null);
  useEffect(() => void get("/api/studio/samples").then(setSamples, () => {}), []);
  const take = async (file) => file && onLines(await readFile(file), file.name);
  const sample = async (name) => name && onLines((await get(`/api/studio/samples/${encodeURIComponent(name)}`)).text, name);
  const paste = (event) => {
    const pasted = event.clipboardData.getData("text");
    if (!value && pasted.includes("\n")) {
      event.preventDefault();
      onLines(pasted, "lines.log");
    }
  };
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    take(event.dataTransfer.files[0]);
  };
  return (
    <section
      class={`card paste${over ? " over" : ""}`} aria-label="Lines"
      onDragOver={(event) => (event.preventDefault(), setOver(true))} onDragLeave={() => setOver(false)} onDrop={drop}
    >
      <header class="bar">
        <h2>Paste some lines of a log</h2>
        <span class="grow" />
        <button class="quiet" onClick={() => input.current.click()}>Open a file</button>
        <input ref={input} type="file" class="hidden" tabIndex={-1} aria-label="File" onChange={(event) => take(event.target.files[0])} />
        <select aria-label="A sample" onChange={(event) => sample(event.target.value)}>
          <option value="">or a sample…</option>
          {samples.map((name) => <option key={name}>{name}</option>)}
        </select>
      </header>
      <textarea
        aria-label="Lines of a log" autofocus spellcheck={false} placeholder={"Paste lines here, or drop a file.\nWhat reads them is found at once; nothing leaves this machine."}
        value={value} onInput={(event) => setValue(event.target.value)} onPaste={paste}
      />
      <footer class="bar">
        <button class="primary" disabled={!value.trim()} onClick={() => onLines(value, "lines.log")}>Find the format</button>
        {onCancel && <button class="quiet" onClick={onCancel}>Cancel</button>}
      </footer>
    </section>
  );
}
