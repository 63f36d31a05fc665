// Load of a real server: keys, values, and clients that write and read them.
const COUNTRIES = ["AD", "AT", "BE", "CH", "CZ", "DE", "DK", "ES", "FI", "FR", "GR", "IT", "NL", "NO", "PL", "PT", "SE"];
const WORDS = ["harbour", "market", "castle", "bridge", "station", "museum", "garden", "river", "theatre", "library"];
const BATCH = 50;

const pick = (list, n) => list[n % list.length];
export const keyOf = (n) => `${pick(COUNTRIES, n)}:${String(Math.floor(n / 17) % 100).padStart(2, "0")}:${String(n).padStart(7, "0")}`;

// About a KiB of text, which the codec makes a third of its size.
export function valueOf(n) {
  const places = Array.from({ length: 24 }, (_, i) => `{"place": "${pick(WORDS, n + i * 7)}", "visits": ${(n * 7919 + i * 104729) % 100000}}`);
  return `{"city": ${n}, "places": [${places.join(", ")}]}`;
}

export const batch = (make) => Array.from({ length: BATCH }, (_, i) => make(i));
export const random = (below) => Math.floor(Math.random() * below);

// Writes about `perSecond` keys, and begins again after `count` keys.
export function writeKeys(server, perSecond, count = Infinity) {
  let next = 0;
  const pause = () => (BATCH / perSecond()) * 1000;
  server.busy(() => batch(() => {
    const key = next++ % count;
    return ["SET", keyOf(key), valueOf(key)];
  }), pause);
}

export const readKeys = (server, perSecond, key) => server.busy(() => batch(() => ["GET", keyOf(key())]), () => (BATCH / perSecond()) * 1000);
