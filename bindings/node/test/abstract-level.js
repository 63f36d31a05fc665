'use strict'

// The suite of abstract-level, as classic-level runs it. With TERRACE_TEST_ANSWERS=worker, a worker
// thread answers every promise.

const test = require('tape')
const suite = require('abstract-level/test')
const { TerraceLevel } = require('..')
const { temporaryDirectory } = require('./directories')

// The suite compares the options that a database receives, so that it cannot be one of them.
class WorkerLevel extends TerraceLevel {
  _open (options) {
    return super._open({ ...options, mainThread: false })
  }
}

const Level = process.env.TERRACE_TEST_ANSWERS === 'worker' ? WorkerLevel : TerraceLevel

suite({ test, factory: options => new Level(temporaryDirectory(), options) })
