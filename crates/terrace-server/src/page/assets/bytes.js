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

export function toHex(data) {
  let text = "";
  for (const byte of data) text += byte.toString(16).padStart(2, "0");
  return text;
}

export function toBytes(value) {
  if (!value) return new Uint8Array();
  return value.hex === undefined ? encoder.encode(value.text) : fromHex(value.hex);
}

export const encodeText = (text) => encoder.encode(text);
export const sameBytes = (a, b) => a === b || (a && b && a.text === b.text && a.hex === b.hex && a.total === b.total);

// Percent-encoding of the exact bytes, for a query.
export function toQuery(data) {
  let text = "";
  for (const byte of data) text += `%${byte.toString(16).padStart(2, "0")}`;
  return text;
}

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
  return `\\x${byte.toString(16).padStart(2, "0")}`;
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
    const hex = Array.from(row, (byte) => byte.toString(16).padStart(2, "0"));
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

// Rows [name, little endian, big endian] of the integers at the begin of `data`.
export function integers(data) {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const rows = [];
  const row = (name, width, read) => {
    if (data.length >= width) rows.push([name, String(read(true)), String(read(false))]);
  };
  row("u8", 1, () => view.getUint8(0));
  row("i8", 1, () => view.getInt8(0));
  row("u16", 2, (little) => view.getUint16(0, little));
  row("i16", 2, (little) => view.getInt16(0, little));
  row("u32", 4, (little) => view.getUint32(0, little));
  row("i32", 4, (little) => view.getInt32(0, little));
  row("u64", 8, (little) => view.getBigUint64(0, little));
  row("i64", 8, (little) => view.getBigInt64(0, little));
  row("f32", 4, (little) => view.getFloat32(0, little));
  row("f64", 8, (little) => view.getFloat64(0, little));
  const number = varint(data);
  if (number) rows.push([`varint (${number.length} B)`, String(number.value), "–"]);
  return rows;
}
