// Text of numbers, sizes, times and durations. A narrow no-break space separates number and unit.
const GAP = "\u202f";
const MINUTE = 60;
const HOUR = 3600;
const DAY = 86400;

function scaled(value, base, units) {
  let unit = 0;
  let rest = Math.abs(value);
  // 999.5 would round to "1000".
  while (rest >= base * 0.9995 && unit < units.length - 1) {
    rest /= base;
    unit += 1;
  }
  const digits = unit === 0 ? (rest < 10 && rest % 1 ? 1 : 0) : rest < 9.95 ? 1 : 0;
  return [(value < 0 ? "-" : "") + rest.toFixed(digits), units[unit]];
}

// Each of these functions returns [number, unit], so that a figure can show the unit in small type.
const NONE = ["–", ""];
export const countParts = (value) => value == null ? NONE : scaled(value, 1000, ["", "k", "M", "G", "T"]);
export const bytesParts = (value) => value == null ? NONE : scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);

export function microsParts(micros) {
  if (micros == null) return NONE;
  const value = micros;
  if (value < 1000) return [value < 10 && value % 1 ? value.toFixed(1) : String(Math.round(value)), "µs"];
  if (value < 999500) return [(value / 1000).toFixed(value < 99500 ? 1 : 0), "ms"];
  return [(value / 1e6).toFixed(value < 99.5e6 ? 1 : 0), "s"];
}

const joined = ([number, unit]) => (unit ? number + GAP + unit : number);
export const count = (value) => joined(countParts(value));
export const bytes = (value) => joined(bytesParts(value));
export const micros = (value) => joined(microsParts(value));
export const percent = (share) => (share == null ? "–" : `${(share * 100).toFixed((share > 0.995 && share < 0.9995) || (share < 0.0995 && share >= 0.0005) ? 1 : 0)}${GAP}%`);
export const exact = (value) => String(Math.round(value ?? 0)).replace(/\B(?=(\d{3})+$)/g, ",");

export function duration(seconds) {
  const value = Math.max(0, seconds ?? 0);
  if (value > 0 && value < 1) return joined(microsParts(value * 1e6));
  if (value < MINUTE) return `${value < 10 && value % 1 ? value.toFixed(1) : Math.round(value)}${GAP}s`;
  if (value < HOUR) return `${Math.floor(value / MINUTE)}${GAP}min`;
  if (value < DAY) return `${Math.floor(value / HOUR)}${GAP}h ${Math.floor((value % HOUR) / MINUTE)}${GAP}min`;
  return `${Math.floor(value / DAY)}${GAP}d ${Math.floor((value % DAY) / HOUR)}${GAP}h`;
}

const two = (value) => String(value).padStart(2, "0");

// Hours and minutes, and seconds.
export const clock = (date, withSeconds) => `${two(date.getHours())}:${two(date.getMinutes())}${withSeconds ? `:${two(date.getSeconds())}` : ""}`;

// Time of day; the date goes before it if the moment is not today.
export function time(at, withSeconds = true) {
  if (at == null) return "–";
  const date = new Date(at);
  const text = clock(date, withSeconds);
  return date.toDateString() === new Date().toDateString() ? text : `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${text}`;
}

export const plural = (value, noun) => `${exact(value)} ${noun}${value === 1 ? "" : "s"}`;
export const fileName = (number) => String(number).padStart(6, "0");
