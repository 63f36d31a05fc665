// Ten million keys that a function computes, and planted values, for the mock server.
export const TOTAL = 10_000_000;
const COUNTRIES = ["AR", "AT", "BR", "CA", "CH", "DE", "ES", "FR", "GB", "IN", "IT", "JP", "KE", "MX", "NO", "PL", "PT", "SE", "US", "ZA"];
const PER_COUNTRY = TOTAL / COUNTRIES.length;
const REGIONS = 50;
const PER_REGION = PER_COUNTRY / REGIONS;

// Keys that try to break the page; they sort before all others.
export const HOSTILE = [
  ["!<img src=x onerror=alert(1)>", "<script>alert(1)</script>"],
  ["!\u202egnp.exe", "left \u202e right \u2066 isolate"],
  ["!' onmouseover='alert(1)", "\" ><svg onload=alert(1)>"],
  ["!big", "x".repeat(1 << 20)],
  ["!json", JSON.stringify({ name: "Brest", location: [48.39, -4.49], population: 139456 })],
  ["!long:" + "k".repeat(5000), "value"],
];
export const NOT_UTF8 = { hex: "21ff00fe0a" };

const two = (value) => String(value).padStart(2, "0");

export function keyAt(index) {
  const country = COUNTRIES[Math.floor(index / PER_COUNTRY)];
  const rest = index % PER_COUNTRY;
  return `${country}:${two(Math.floor(rest / PER_REGION))}:${String(rest % PER_REGION).padStart(5, "0")}`;
}

// Index of the first key that is not less than `text`.
export function lowerBound(text) {
  let low = 0;
  let high = TOTAL;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (keyAt(middle) < text) low = middle + 1;
    else high = middle;
  }
  return low;
}

const TYPES = ["string", "hash", "list", "set", "zset", "stream"];

export function describe(index) {
  const type = index % 40 === 7 ? TYPES[1 + (Math.floor(index / 40) % 5)] : "string";
  return { key: { text: keyAt(index) }, type, size: type === "string" ? 12 + (index % 90) : 3 + (index % 4000), ttlMs: index % 50 === 3 ? 360000 : null, scheme: null };
}

export { COUNTRIES, PER_COUNTRY, PER_REGION, REGIONS };
