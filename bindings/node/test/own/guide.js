'use strict'

// Each block of JavaScript in the guide and in README.md is a program that must run.

const test = require('tape')
const { spawnSync } = require('child_process')
const { mkdirSync, readFileSync, symlinkSync, writeFileSync } = require('fs')
const { join } = require('path')
const { temporaryDirectory } = require('../directories')

const PACKAGE = join(__dirname, '../..')

/** Returns the blocks of `js` in a text, with the output that the block after each of them states. */
function programs (text) {
  const blocks = text.matchAll(/```js\n(.*?)```(?:\n+prints\n+```text\n(.*?)```)?/gs)
  return Array.from(blocks, ([, code, output]) => ({ code, output }))
}

for (const [file, minimum] of [['README.md', 1], ['../../docs/guide/node.md', 7]]) {
  test(file, t => {
    const found = programs(readFileSync(join(PACKAGE, file), 'utf8'))
    t.ok(found.length >= minimum, `${found.length} programs`)
    for (const { code, output } of found) {
      const directory = temporaryDirectory()
      mkdirSync(join(directory, 'node_modules'), { recursive: true })
      symlinkSync(PACKAGE, join(directory, 'node_modules/terrace-level'))
      writeFileSync(join(directory, 'program.mjs'), code)
      const result = spawnSync(process.execPath, ['program.mjs'], { cwd: directory, encoding: 'utf8' })
      t.is(result.status, 0, result.stderr || code.split('\n')[0])
      if (output !== undefined) t.is(result.stdout, output)
    }
    t.end()
  })
}
