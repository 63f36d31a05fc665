// Colours of canvases, which the style sheet defines as custom properties, and the choice of a theme.
import { useEffect, useState } from "./preact-htm.js";

const KEY = "terrace-theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set();
let cache = null;

const NAMES = ["ink", "muted", "line", "surface", "raised", "accent", "second", "third", "warn", "bad", "ramp-low", "ramp-high", "cause-flush", "cause-compaction", "cause-space", "cause-other"];

export function palette() {
  if (!cache) {
    const style = getComputedStyle(document.documentElement);
    // A custom property keeps the text light-dark(#.., #..).
    const colour = (name) => style.getPropertyValue(`--${name}`).match(/#[0-9a-f]{6}/g)[isDark() ? 1 : 0];
    cache = Object.fromEntries(NAMES.map((name) => [name, colour(name)]));
    cache.font = getComputedStyle(document.body).fontFamily;
  }
  return cache;
}

function change() {
  cache = null;
  for (const listener of [...listeners]) listener(palette());
}

system.addEventListener("change", change);

// The colours; the component renders again when the theme changes.
export function usePalette() {
  const [colours, setColours] = useState(palette());
  useEffect(() => {
    listeners.add(setColours);
    return () => listeners.delete(setColours);
  }, []);
  return colours;
}

export const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";

export function toggleTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // The choice lasts as long as the page.
  }
  change();
}

function channels(colour) {
  const hex = colour.replace("#", "");
  return [0, 2, 4].map((start) => parseInt(hex.substr(start, 2), 16));
}

// `count` colours from one colour to another.
export function ramp(low, high, count) {
  const [from, to] = [channels(low), channels(high)];
  return Array.from({ length: count }, (_, i) => {
    const share = i / (count - 1);
    return `rgb(${from.map((value, channel) => Math.round(value + (to[channel] - value) * share)).join(",")})`;
  });
}
