// Byte strings. The server sends {"text"} for UTF-8 without control characters, and {"hex"} otherwise.
const encoder = new TextEncoder();
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const HEX_ROW = 16;

// Characters that change the direction of text, that are invisible, or that break a line.
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])/g;
const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

export function fromHex(hex) {
  const result = new Uint8Array(hex.length >> 1);
  for (let i = 0; i < result.length; i += 1) result[i] = parseInt(hex.substr(i * 2, 2), 16);
  return result;
}

const digits = (byte) => byte.toString(16).padStart(2, "0");
export const toHex = (data) => Array.from(data, digits).join("");

export function toBytes(value) {
  if (!value) return new Uint8Array();
  return value.hex === undefined ? encoder.encode(value.text) : fromHex(value.hex);
}

export const encodeText = (text) => encoder.encode(text);
export const sameBytes = (a, b) => a === b || (a && b && a.text === b.text && a.hex === b.hex && a.total === b.total);

// Percent-encoding of the exact bytes, for a query.
export const toQuery = (data) => toHex(data).replace(/../g, "%$&");

// The server keeps a long key under a number, and sends only its first bytes.
export const keyArgument = (key) => (key.id === undefined ? { key: toBytes(key) } : { keyId: key.id });
export const cursorOf = ({ key }) => (key.id === undefined ? toQuery(toBytes(key)) : `&fromId=${key.id}`);

function escapeCharacter(character) {
  return SHORT[character] ?? `\\u{${character.codePointAt(0).toString(16)}}`;
}

// Text with visible escapes for characters that a reader would not see. `keep` are characters to leave.
export function visible(text, keep = "") {
  return text.replace(INVISIBLE, (character) => (keep.includes(character) ? character : escapeCharacter(character)));
}

function escapeByte(byte) {
  if (byte === 0x5c) return "\\\\";
  if (byte >= 0x20 && byte < 0x7f) return String.fromCharCode(byte);
  return `\\x${digits(byte)}`;
}

// One line of at most `limit` characters for a byte string.
export function oneLine(value, limit = 200) {
  if (!value) return "";
  if (value.hex === undefined) {
    const text = visible(value.text.slice(0, limit));
    return value.text.length > limit ? `${text}…` : text;
  }
  const data = fromHex(value.hex.slice(0, limit * 2));
  const text = Array.from(data, escapeByte).join("");
  return value.hex.length > limit * 2 ? `${text}…` : text;
}

// The text of bytes, or null if they are not UTF-8. A part of a longer value may end inside of a character.
export function decodeText(data, isPart = false) {
  for (let cut = 0; cut <= (isPart ? 3 : 0) && cut <= data.length; cut += 1) {
    try {
      return strict.decode(data.subarray(0, data.length - cut));
    } catch {
      // The next attempt leaves out one more byte.
    }
  }
  return null;
}

// Key of a user in a key of the engine, or null. In the typed layout, the byte 1 and two bytes for the
// namespace precede it; the keys of members and of the server have other first bytes.
export function userKey(value, layout) {
  if (layout !== "typed" || !value) return value;
  const data = toBytes(value);
  if (data[0] !== 1) return null;
  const key = data.subarray(3);
  const text = decodeText(key);
  return text === null ? { hex: toHex(key) } : { text };
}

// Bytes of a line that a user typed: \xNN, \n, \r, \t and \\ are escapes.
export function parseEscapes(line) {
  const result = [];
  const pattern = /\\x([0-9a-fA-F]{2})|\\([nrt\\])|([\s\S])/gu;
  for (const [, hex, letter, character] of line.matchAll(pattern)) {
    if (hex) result.push(parseInt(hex, 16));
    else if (letter) result.push({ n: 10, r: 13, t: 9, "\\": 92 }[letter]);
    else result.push(...encoder.encode(character));
  }
  return new Uint8Array(result);
}

export function hexDump(data, offset = 0) {
  const lines = [];
  for (let start = 0; start < data.length; start += HEX_ROW) {
    const row = data.subarray(start, start + HEX_ROW);
    const hex = Array.from(row, digits);
    const text = Array.from(row, (byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join("");
    const left = hex.slice(0, 8).join(" ").padEnd(23);
    const right = hex.slice(8).join(" ").padEnd(23);
    lines.push(`${(offset + start).toString(16).padStart(6, "0")}  ${left}  ${right}  ${text}`);
  }
  return lines.join("\n");
}

function varint(data) {
  let value = 0n;
  for (let i = 0; i < Math.min(data.length, 10); i += 1) {
    value |= BigInt(data[i] & 0x7f) << BigInt(7 * i);
    if (data[i] < 0x80) return { value: BigInt.asUintN(64, value), length: i + 1 };
  }
  return null;
}

// Numbers at the begin of a value: their sizes, and their names in a DataView.
const NUMBERS = {
  u8: [1, "Uint8"], i8: [1, "Int8"], u16: [2, "Uint16"], i16: [2, "Int16"], u32: [4, "Uint32"], i32: [4, "Int32"],
  u64: [8, "BigUint64"], i64: [8, "BigInt64"], f32: [4, "Float32"], f64: [8, "Float64"],
};

// Rows [name, little endian, big endian] of the numbers at the begin of `data`.
export function integers(data) {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const fitting = Object.entries(NUMBERS).filter(([, [size]]) => data.length >= size);
  const rows = fitting.map(([name, [, type]]) => [name, ...[true, false].map((isLittle) => String(view[`get${type}`](0, isLittle)))]);
  const number = varint(data);
  if (number) rows.push([`varint (${number.length} B)`, String(number.value), "–"]);
  return rows;
}
