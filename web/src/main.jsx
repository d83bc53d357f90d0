// The page: one screen for each address. Texts are rendered by Preact, which escapes them: log lines are hostile.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, get, setToken, takeTokenFromAddress } from "./shared/api.js";
import { Studio } from "./studio/Studio.jsx";

takeTokenFromAddress();
applyTheme(localStorage.getItem("sluice-theme"));

function applyTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

function toggleTheme() {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  localStorage.setItem("sluice-theme", dark ? "light" : "dark");
  applyTheme(dark ? "light" : "dark");
}

function App() {
  const [about, setAbout] = useState(null);
  const [error, setError] = useState(null);
  const load = () => get("/api/studio").then((found) => (setAbout(found), setError(null)), setError);
  useEffect(() => void load(), []);
  return (
    <>
      <a class="skip" href="#main">Skip to the content</a>
      <header class="top">
        <a class="brand" href="/"><img src="/static/icon.svg" alt="" width="26" height="26" />Sluice</a>
        <nav aria-label="Screens">
          <a href="/studio" aria-current="page">Studio</a>
        </nav>
        <span class="grow" />
        <button class="quiet icon" onClick={toggleTheme} aria-label="Light or dark" title="Light or dark">◐</button>
      </header>
      <main id="main" tabIndex={-1}>
        {error ? <Refused error={error} retry={load} /> : about ? <Studio about={about} /> : <p class="loading">…</p>}
      </main>
    </>
  );
}

/** What the page shows instead of a screen: a field for the token, or the message. */
function Refused({ error, retry }) {
  if (!(error instanceof ApiError) || error.status !== 401) {
    return (
      <section class="card narrow" role="alert">
        <h1>That did not work</h1>
        <p>{error.message}</p>
        <button onClick={retry}>Try again</button>
      </section>
    );
  }
  const submit = (event) => {
    event.preventDefault();
    setToken(new FormData(event.target).get("token").trim());
    retry();
  };
  return (
    <form class="card narrow" onSubmit={submit}>
      <h1>Sign in</h1>
      <p>{error.message}</p>
      <label>Token<input name="token" type="password" autocomplete="off" required autofocus /></label>
      <button class="primary">Sign in</button>
    </form>
  );
}

const place = document.getElementById("app");
place.replaceChildren();
render(<App />, place);
