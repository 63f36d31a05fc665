'use strict'

const { TerraceLevel } = require('./lib/terrace-level')

exports.TerraceLevel = TerraceLevel
// The names of the packages whose place this one takes.
exports.ClassicLevel = TerraceLevel
exports.Level = TerraceLevel
