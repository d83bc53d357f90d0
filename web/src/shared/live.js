// What the server says as it happens: the status of each pipeline, and documents that are read again every few seconds.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, poll, stream } from "./api.js";

const RETRY_MS = 2000;
const SHOW_MS = 250; // events of many pipelines come one after the other: each of them would render all rows

/** Name → status of all pipelines and refused file → reason, from the server's events; ``error`` while there is no connection. */
export function useStatuses() {
  const [state, setState] = useState({ statuses: null, refused: {}, error: null });
  useEffect(() => {
    let control;
    let timer;
    const follow = async () => {
      const { signal } = (control = new AbortController());
      const statuses = new Map();
      let refused = {};
      let waiting = 0;
      const show = () => {
        waiting = 0;
        if (!signal.aborted) setState({ statuses: new Map(statuses), refused, error: null });
      };
      try {
        const listed = await get("/api/pipelines", signal);
        for (const one of listed.pipelines) statuses.set(one.name, one);
        refused = listed.refused_files;
        show();
        for await (const { event, data } of stream("/api/events", signal)) {
          if (event === "pipeline") statuses.set(data.name, data);
          else if (event === "removed") statuses.delete(data.name);
          else if (event === "refused_files") refused = data;
          waiting ||= setTimeout(show, SHOW_MS);
        }
      } catch (error) {
        if (error.name === "AbortError") return;
        setState((old) => ({ ...old, error }));
      }
      if (!signal.aborted) timer = setTimeout(follow, RETRY_MS);
    };
    // A page that nobody sees is no viewer: the server would encode and send for it.
    const toggle = () => {
      clearTimeout(timer);
      control?.abort();
      if (!document.hidden) follow();
    };
    document.addEventListener("visibilitychange", toggle);
    toggle();
    return () => (document.removeEventListener("visibilitychange", toggle), clearTimeout(timer), control?.abort());
  }, []);
  return state;
}

/** The document at ``path``, read again every ``every`` milliseconds while the page is visible, and when it becomes visible. */
export function usePolled(path, every = 1500) {
  const [state, setState] = useState({ value: null, error: null, at: 0 });
  const latest = useRef(path);
  latest.current = path;
  useEffect(() => {
    const control = new AbortController();
    let timer;
    let isReading = false;
    const read = async () => {
      if (document.hidden || isReading) return;
      isReading = true;
      clearTimeout(timer);
      let pause = 0;
      try {
        const answer = await poll(path, control.signal);
        const { value } = answer;
        pause = answer.pause;
        if (latest.current === path) setState({ value, error: null, at: performance.now() });
      } catch (error) {
        if (error.name === "AbortError") return;
        setState((old) => ({ ...old, error }));
      } finally {
        isReading = false;
      }
      if (!control.signal.aborted) timer = setTimeout(read, Math.max(every, pause));
    };
    document.addEventListener("visibilitychange", read, { signal: control.signal });
    setState({ value: null, error: null, at: 0 });
    read();
    return () => (clearTimeout(timer), control.abort());
  }, [path, every]);
  return state;
}

/** Events a second by key, from sums that grow: the difference to the value before. */
export function useRates(sums, at) {
  const before = useRef(null);
  const rates = useRef(new Map());
  if (sums && at && before.current?.at !== at) {
    const seconds = before.current ? (at - before.current.at) / 1000 : 0;
    rates.current = new Map();
    for (const [key, sum] of sums) {
      const old = before.current?.sums.get(key);
      rates.current.set(key, seconds > 0 && old !== undefined ? Math.max(0, (sum - old) / seconds) : 0);
    }
    before.current = { sums, at };
  }
  return rates.current;
}
