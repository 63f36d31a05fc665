// Console: runs a command of the server, with completion and help from the list of commands.
import { html, useEffect, useRef, useState } from "./preact-htm.js";
import { post } from "./api.js";
import { oneLine } from "./bytes.js";
import { database, useCell } from "./store.js";

const MAX_LINES = 200;
const MAX_ELEMENTS = 500;
const MAX_PROPOSALS = 8;
// Lines and past commands stay when the user changes the tab.
const kept = { lines: [], past: [] };

// Lines of a reply, in the form of redis-cli.
function replyLines(reply) {
  if (reply === null || reply === undefined || "null" in reply) return ["(nil)"];
  if ("status" in reply) return [oneLine({ text: reply.status }, 2000)];
  if ("error" in reply) return [`(error) ${oneLine({ text: reply.error }, 2000)}`];
  if ("integer" in reply) return [`(integer) ${reply.integer}`];
  if ("bulk" in reply) return [`"${oneLine(reply.bulk, 2000)}"`];
  const elements = reply.array ?? [];
  if (!elements.length) return ["(empty array)"];
  const lines = [];
  elements.slice(0, MAX_ELEMENTS).forEach((element, i) => {
    const number = `${i + 1}) `;
    const [first, ...rest] = replyLines(element);
    lines.push(number + first, ...rest.map((line) => " ".repeat(number.length) + line));
  });
  if (elements.length > MAX_ELEMENTS) lines.push(`and ${elements.length - MAX_ELEMENTS} more`);
  return lines;
}

function argumentsOf({ arity }) {
  const least = Math.abs(arity) - 1;
  const text = least === 1 ? "1 argument" : `${least} arguments`;
  return arity < 0 ? `${text} or more` : text;
}

function Help({ commands, line }) {
  const name = line.trimStart().split(/\s/)[0].toLowerCase();
  const known = commands.find((command) => command.name === name);
  if (known) return html`<p class="help"><b>${known.name.toUpperCase()}</b> ${argumentsOf(known)}. ${known.summary}${known.write ? " It writes." : ""}</p>`;
  const proposals = name ? commands.filter((command) => command.name.startsWith(name)) : [];
  if (!proposals.length) return html`<p class="help">${name ? "No command begins with this word." : "Type a command. Tab completes it, the arrow keys repeat earlier ones."}</p>`;
  return html`<p class="help">${proposals.slice(0, MAX_PROPOSALS).map((command) => command.name).join("  ")}${proposals.length > MAX_PROPOSALS ? `  and ${proposals.length - MAX_PROPOSALS} more` : ""}</p>`;
}

// The line with its first word completed as far as all commands agree, or null.
function complete(line, commands) {
  if (/\s/.test(line)) return null;
  const names = commands.map((command) => command.name).filter((name) => name.startsWith(line.toLowerCase()));
  if (!line || !names.length) return null;
  let end = names[0];
  while (!names.every((name) => name.startsWith(end))) end = end.slice(0, -1);
  if (names.length === 1) return `${end} `;
  return end.length > line.length ? end : null;
}

export function Console() {
  const state = useCell(database);
  const [lines, setLines] = useState(kept.lines);
  const [line, setLine] = useState("");
  const [place, setPlace] = useState(0);
  const end = useRef(null);
  const commands = state?.commands ?? [];
  useEffect(() => {
    end.current.scrollTop = end.current.scrollHeight;
  }, [lines]);
  const add = (more) => {
    kept.lines = [...kept.lines, ...more].slice(-MAX_LINES);
    setLines(kept.lines);
  };
  const run = async (event) => {
    event.preventDefault();
    const text = line.trim();
    if (!text) return;
    kept.past = [text, ...kept.past.filter((other) => other !== text)].slice(0, 100);
    setLine("");
    setPlace(0);
    add([{ input: true, text }]);
    try {
      const { reply } = await post("console", { line: text });
      add(replyLines(reply).map((output) => ({ text: output, bad: reply && "error" in reply })));
    } catch (error) {
      add([{ text: error.message, bad: true }]);
    }
  };
  const key = (event) => {
    const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (event.key === "Tab" && !event.shiftKey) {
      const completed = complete(line, commands);
      if (!completed) return;
      event.preventDefault();
      setLine(completed);
    } else if (step) {
      event.preventDefault();
      const next = Math.min(kept.past.length, Math.max(0, place + step));
      setPlace(next);
      setLine(next ? kept.past[next - 1] : "");
    } else if (event.key === "Escape") setLine("");
  };
  return html`<div class="console">
    <div class="console-lines" ref=${end} tabindex="0" role="log" aria-label="Replies">${lines.map((one, i) => html`<div key=${i} data-input=${one.input} data-bad=${one.bad}><bdi>${one.text}</bdi></div>`)}</div>
    <form onSubmit=${run}><span aria-hidden="true">›</span><input value=${line} onInput=${(event) => setLine(event.target.value)} onKeyDown=${key} aria-label="Command" aria-describedby="console-help" spellcheck=${false} autocomplete="off" autocapitalize="off" /></form>
    <div id="console-help" aria-live="polite"><${Help} commands=${commands} line=${line} /></div>
  </div>`;
}
