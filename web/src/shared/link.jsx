// Links between the screens: the address changes, the page stays.
import { useEffect, useState } from "preact/hooks";

export function go(path) {
  history.pushState(null, "", path);
  dispatchEvent(new PopStateEvent("popstate"));
}

export function Link({ to, children, ...rest }) {
  const open = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    go(to);
  };
  return <a href={to} onClick={open} {...rest}>{children}</a>;
}

export function usePath() {
  const [path, setPath] = useState(location.pathname);
  useEffect(() => {
    const changed = () => setPath(location.pathname);
    addEventListener("popstate", changed);
    return () => removeEventListener("popstate", changed);
  }, []);
  return path;
}

export const pipelinePath = (name) => `/pipelines/${name.split("/").map(encodeURIComponent).join("/")}`;
export const apiPath = (name) => `/api${pipelinePath(name)}`;
