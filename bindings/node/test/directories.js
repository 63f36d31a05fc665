'use strict'

const { mkdtempSync, rmSync } = require('fs')
const { tmpdir } = require('os')
const { join } = require('path')

const root = mkdtempSync(join(tmpdir(), 'terrace-level-'))
let last = 0

process.once('exit', () => rmSync(root, { recursive: true, force: true }))

/** Returns the path of a directory that does not exist yet. It is removed at exit. */
function temporaryDirectory () {
  return join(root, String(++last))
}

module.exports = { temporaryDirectory }
