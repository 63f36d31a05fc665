'use strict'

// Time in milliseconds that answers may take in one turn of the event loop. A promise that is ready
// runs before every timer and socket, so that a loop of such promises would starve them.
const BUDGET_MS = 1

// Bytes of keys and values between two looks at the clock. A look takes about 40 ns, and a copy of
// this number of bytes takes less than 0.1 ms.
const BYTES_PER_LOOK = 16384

// Bytes that an answer counts, besides those of its key and value.
const BYTES_PER_ANSWER = 1024

let isTurnMarked = false
let turnEnd = 0
let bytesUntilLook = 0
let isOver = false

function beginTurn () {
  isTurnMarked = false
  isOver = false
  bytesUntilLook = BYTES_PER_LOOK
}

/**
 * Returns true if the main thread may answer a call of about `bytes` bytes in this turn of the
 * event loop. All databases of the thread share the time.
 */
function mayAnswer (bytes) {
  if (isOver) return false
  bytesUntilLook -= BYTES_PER_ANSWER + bytes
  return bytesUntilLook > 0 && isTurnMarked ? true : look()
}

function look () {
  const now = performance.now()
  bytesUntilLook = BYTES_PER_LOOK
  if (!isTurnMarked) {
    isTurnMarked = true
    turnEnd = now + BUDGET_MS
    setImmediate(beginTurn).unref()
  }
  isOver = now >= turnEnd
  return !isOver
}

/** Counts the bytes of an answer whose size was not known before. */
function count (bytes) {
  bytesUntilLook -= bytes
}

/** Resolves in the next turn of the event loop. */
function nextTurn () {
  return new Promise(resolve => setImmediate(resolve))
}

module.exports = { count, mayAnswer, nextTurn }
