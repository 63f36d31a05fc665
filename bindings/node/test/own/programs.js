'use strict'

// Programs of others on this package and on classic-level, in turns on one database.

const test = require('tape')
const { ClassicLevel } = require('classic-level')
const { DataFactory } = require('rdf-data-factory')
const { TerraceLevel } = require('../..')
const { temporaryDirectory } = require('../directories')

// `require` of Node 18 refuses an ES module.
const quadstore = import('quadstore')
const factory = new DataFactory()
const person = number => factory.namedNode(`http://example.org/person/${number}`)
const knows = factory.namedNode('http://example.org/knows')
const age = factory.namedNode('http://example.org/age')
const integer = factory.namedNode('http://www.w3.org/2001/XMLSchema#integer')
const literal = number => factory.literal(String(number), integer)

/** Stores and deletes statements of a graph, and returns the answers to queries. */
async function useGraph (Level, location, turn) {
  const { Quadstore } = await quadstore
  const store = new Quadstore({ backend: new Level(location), dataFactory: factory })
  await store.open()
  const people = Array.from({ length: 60 }, (_, number) => number)
  await store.multiPut(people.map(n => factory.quad(person(n), knows, person((n * 7 + turn) % 60))))
  for (const n of people.slice(0, 10)) await store.put(factory.quad(person(n), age, literal(n * 3 + turn)))
  const old = await store.get({ subject: person(turn), predicate: knows })
  await store.multiDel(old.items.slice(0, 2))
  const answers = [
    await store.get({ predicate: age, object: { termType: 'Range', gte: literal(5), lt: literal(20) } }),
    await store.get({ subject: person(3) }, { reverse: true, limit: 5 }),
    await store.get({ object: person(14) }),
    await store.get({})
  ].map(({ items }) => items.map(quad => [quad.subject.value, quad.predicate.value, quad.object.value]))
  await store.close()
  return answers
}

test('quadstore, a graph database on abstract-level', async t => {
  const run = async classes => {
    const location = temporaryDirectory()
    const answers = []
    for (let turn = 0; turn < 6; turn++) answers.push(await useGraph(classes[turn % classes.length], location, turn))
    return answers
  }
  const expected = await run([ClassicLevel])
  t.ok(expected[5][3].length > 300 && expected[5].every(items => items.length > 0), 'the queries have answers')
  t.same(await run([TerraceLevel]), expected)
  t.same(await run([TerraceLevel, ClassicLevel]), expected, 'in turns with classic-level')
})
