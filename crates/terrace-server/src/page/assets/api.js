// Requests to the server that sent this page. There is no other host.
import { toHex, toQuery } from "./bytes.js";

const ROOT = "/api/v1/";

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function reply(response) {
  let content = null;
  try {
    content = await response.json();
  } catch (error) {
    // A caller may abort while the body arrives.
    if (error.name === "AbortError") throw error;
    if (response.ok) throw new ApiError(0, "The reply of the server is incomplete.");
  }
  if (!response.ok) throw new ApiError(response.status, content?.error ?? `The server replied with status ${response.status}.`);
  return content;
}

async function request(path, options) {
  try {
    return await fetch(ROOT + path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The server does not reply.");
  }
}

// Arguments that are bytes become percent-encoded bytes; those that are null are left out.
function query(args) {
  const parts = [];
  for (const [name, value] of Object.entries(args)) {
    if (value == null) continue;
    parts.push(`${name}=${value instanceof Uint8Array ? toQuery(value) : encodeURIComponent(value)}`);
  }
  return parts.length ? `?${parts.join("&")}` : "";
}

// A cursor is percent-encoded by the server and goes back as it came.
export async function get(path, args = {}, { signal, cursor } = {}) {
  let address = path + query(args);
  if (cursor) address += `${address.includes("?") ? "&" : "?"}from=${cursor}`;
  return reply(await request(address, { signal }));
}

export async function post(path, content) {
  const body = JSON.stringify(content, (_, value) => (value instanceof Uint8Array ? toHex(value) : value));
  const headers = { "Content-Type": "application/json", "X-Terrace": "1" };
  return reply(await request(path, { method: "POST", headers, body }));
}

// Server-sent events while the page is visible. `handlers` are functions by event name; `opened` and
// `lost` report the connection. The browser does not reconnect after an HTTP error, so this does.
export function listen(handlers, { opened, lost }) {
  const RETRY_MS = 2000;
  let source = null;
  let timer = null;

  const close = () => {
    clearTimeout(timer);
    source?.close();
    source = null;
  };
  const open = () => {
    close();
    source = new EventSource(`${ROOT}events`);
    source.onopen = opened;
    source.onerror = () => {
      close();
      lost();
      timer = setTimeout(open, RETRY_MS);
    };
    for (const [name, handler] of Object.entries(handlers)) {
      source.addEventListener(name, (message) => handler(JSON.parse(message.data)));
    }
  };
  const follow = () => (document.hidden ? close() : open());
  document.addEventListener("visibilitychange", follow);
  follow();
}
