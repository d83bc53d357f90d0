// Requests to the server. The token of the address (#token=…) or of the sign-in stays in this tab.
const KEY = "sluice-token";

export function takeTokenFromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(KEY, given);
    history.replaceState(null, "", location.pathname + location.search);
  }
}

export function setToken(token) {
  sessionStorage.setItem(KEY, token);
}

/** Thrown for answers that are not 2xx, with the server's message. */
export class ApiError extends Error {
  constructor(status, message, problems) {
    super(message);
    this.status = status;
    this.problems = problems ?? [];
  }
}

async function request(method, path, body, signal, whole) {
  const token = sessionStorage.getItem(KEY);
  const headers = { Accept: "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = typeof body === "string" ? "application/yaml" : "application/json";
  const payload = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  let response;
  try {
    response = await fetch(path, { method, headers, body: payload, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "the server does not answer");
  }
  const value = await response.json().catch(() => null);
  if (response.ok) return whole ? { value, pause: 1000 * Number(response.headers.get("Poll-After")) } : value;
  const error = value?.error;
  throw new ApiError(response.status, error?.message ?? (typeof error === "string" ? error : response.statusText), error?.problems);
}

export const get = (path, signal) => request("GET", path, undefined, signal);
/** The document at a path, and the milliseconds until a server with many viewers wants to be asked again. */
export const poll = (path, signal) => request("GET", path, undefined, signal, true);
export const post = (path, body, signal) => request("POST", path, body ?? {}, signal);
export const put = (path, body) => request("PUT", path, body);
export const del = (path) => request("DELETE", path);

/** Save the file at a path. The browser itself loads it with its cookie; only a tab with a token of its own holds it in memory. */
export async function download(path) {
  const token = sessionStorage.getItem(KEY);
  const link = document.createElement("a");
  link.href = path;
  link.download = "";
  if (token) {
    const response = await fetch(path, { headers: { Authorization: `Bearer ${token}` } });
    if (!response.ok) throw new ApiError(response.status, (await response.json().catch(() => null))?.error?.message ?? response.statusText);
    link.download = /filename="(.*)"/.exec(response.headers.get("Content-Disposition") ?? "")?.[1] ?? "";
    link.href = URL.createObjectURL(await response.blob());
  }
  link.click();
  if (token) setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** The server-sent events of a path. ``EventSource`` cannot send the token, so the answer is read as it comes. */
export async function* stream(path, signal) {
  const token = sessionStorage.getItem(KEY);
  const response = await fetch(path, { headers: token ? { Authorization: `Bearer ${token}` } : {}, signal });
  if (!response.ok) throw new ApiError(response.status, response.statusText);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const event = /^event: (.*)$/m.exec(part)?.[1];
      const data = /^data: (.*)$/m.exec(part)?.[1];
      if (event && data) yield { event, data: JSON.parse(data) };
    }
  }
}
