'use strict'

// The suite of abstract-level, as classic-level runs it. With the argument `worker`, a worker thread
// answers every promise.

const test = require('tape')
const suite = require('abstract-level/test')
const { TerraceLevel } = require('..')
const { temporaryDirectory } = require('./directories')

const mainThread = process.env.TERRACE_TEST_ANSWERS !== 'worker'

suite({
  test,
  factory: options => new TerraceLevel(temporaryDirectory(), { ...options, mainThread })
})
