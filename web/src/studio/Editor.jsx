// The editor as a component; its code is loaded after the page has painted.
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

export function Editor({ handle, text, onChange, problems, fields, label }) {
  const place = useRef(null);
  const latest = useRef({});
  latest.current = { text, onChange, problems, fields };
  useEffect(() => {
    let gone = false;
    import("./editor.js").then(({ createEditor }) => {
      if (gone) return;
      place.current.replaceChildren();
      handle.current = createEditor(place.current, {
        text: latest.current.text,
        onChange: (next) => latest.current.onChange(next),
        fieldsAt: fields && ((line) => latest.current.fields(line)),
        label,
      });
      handle.current.setProblems(latest.current.problems);
    });
    return () => ((gone = true), handle.current?.destroy(), (handle.current = null));
  }, []);
  useLayoutEffect(() => handle.current?.setText(text), [text]); // an effect after the paint would undo what was typed since
  useEffect(() => handle.current?.setProblems(problems), [problems]);
  return <div class="editor" ref={place}><pre>{text}</pre></div>;
}
