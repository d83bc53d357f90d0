// What every screen has: a title, and a text until its document has come.
import { useEffect } from "preact/hooks";

/** What stands in the place of a document that has not come: the reason, where there is one. */
export const Loading = ({ error }) => <p class={error ? "loading status bad" : "loading"} role={error ? "alert" : undefined}>{error ? error.message : "…"}</p>;

/** The title of the browser's tab while a screen is shown. */
export function useTitle(title) {
  useEffect(() => {
    document.title = `${title} · Sluice`;
    return () => void (document.title = "Sluice");
  }, [title]);
}
