'use strict'

const ModuleError = require('module-error')

// An error of a worker thread has its code in front of its message.
const SEPARATOR = '\0'

/** Returns the error of a call that a worker thread answered, with its code. */
function failure (error) {
  const at = error.message.indexOf(SEPARATOR)
  if (at < 0) return error
  return new ModuleError(error.message.slice(at + 1), { code: error.message.slice(0, at) })
}

module.exports = { failure }
