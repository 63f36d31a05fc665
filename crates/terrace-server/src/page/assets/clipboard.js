// Copies text. A page that came by plain HTTP from another host has no clipboard interface.
import { notice } from "./store.js";

function copyBySelection(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "hidden";
  document.body.append(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  return isDone;
}

export async function copyText(text, noun) {
  let isDone = false;
  try {
    await navigator.clipboard.writeText(text);
    isDone = true;
  } catch {
    isDone = copyBySelection(text);
  }
  notice.set({ words: isDone ? `The ${noun} was copied.` : "The browser refused to copy.", bad: !isDone });
}
