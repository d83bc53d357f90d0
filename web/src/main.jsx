// The page: one screen for each address. Texts are rendered by Preact, which escapes them: log lines are hostile.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { DeadLetters } from "./server/DeadLetters.jsx";
import { Pipeline } from "./server/Pipeline.jsx";
import { Pipelines } from "./server/Pipelines.jsx";
import { Rules } from "./server/Rules.jsx";
import { ApiError, get, setToken, takeTokenFromAddress } from "./shared/api.js";
import { Link, usePath } from "./shared/link.jsx";
import { Loading } from "./shared/screen.jsx";
import { Studio } from "./studio/Studio.jsx";

const SCREENS = { "/": "Pipelines", "/dead-letters": "Dead letters", "/rules": "Rules", "/studio": "Studio" };

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
  const path = usePath();
  const load = () => get("/api/studio").then((found) => (setAbout(found), setError(null)), setError);
  useEffect(() => void load(), []);
  return (
    <>
      <a class="skip" href="#main">Skip to the content</a>
      <header class="top">
        <Link class="brand" to={about?.server ? "/" : "/studio"}><img src="/static/icon.svg" alt="" width="26" height="26" />Sluice</Link>
        <nav aria-label="Screens">
          {Object.entries(SCREENS).filter(([to]) => about?.server || to === "/studio").map(([to, label]) => (
            <Link key={to} to={to} aria-current={to === "/" ? (path === "/" || path.startsWith("/pipelines/") ? "page" : undefined) : path === to ? "page" : undefined}>{label}</Link>
          ))}
        </nav>
        <span class="grow" />
        <button class="quiet icon" onClick={toggleTheme} aria-label="Light or dark" title="Light or dark">◐</button>
      </header>
      <main id="main" tabIndex={-1}>
        {error ? <Refused error={error} retry={load} /> : about ? <Screen about={about} path={path} /> : <Loading />}
      </main>
    </>
  );
}

function Screen({ about, path }) {
  const name = /^\/pipelines\/(.+)$/.exec(path)?.[1].split("/").map(decodeURIComponent).join("/");
  if (!about.server || path === "/studio") return <Studio about={about} />;
  if (name) return <Pipeline key={name} name={name} />;
  if (path === "/dead-letters") return <DeadLetters />;
  return path === "/rules" ? <Rules /> : <Pipelines />;
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
      <p>This server asks for a token: <code>etl token</code> makes one, and <code>etl studio</code> prints one in its address.</p>
      <label>Token<input name="token" type="password" autocomplete="off" required autofocus /></label>
      <button class="primary">Sign in</button>
    </form>
  );
}

const place = document.getElementById("app");
place.replaceChildren();
render(<App />, place);
