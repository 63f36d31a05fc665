'use strict'

const kReference = Symbol('reference')

// A sweep of fewer references saves too little memory.
const MIN_SWEEP_SIZE = 1024

const registry = new FinalizationRegistry(({ references, reference, free, handle }) => {
  references.delete(reference)
  free(handle)
})

/**
 * Iterators, snapshots and batches of a database, which close with it. The garbage collector may
 * free them before that, when the program has forgotten them. It then frees their native part.
 */
class WeakResources {
  #references = new Set()
  #sweepSize = MIN_SWEEP_SIZE // number of references at which the next sweep begins

  add (resource) {
    const reference = resource[kReference] = new WeakRef(resource)
    this.#references.add(reference)
    if (this.#references.size >= this.#sweepSize) this.#sweep()
  }

  /** Removes the references to forgotten resources without a native part: those have no finalizer. */
  #sweep () {
    for (const reference of this.#references) {
      if (reference.deref() === undefined) this.#references.delete(reference)
    }
    this.#sweepSize = Math.max(2 * this.#references.size, MIN_SWEEP_SIZE)
  }

  delete (resource) {
    this.#references.delete(resource[kReference])
  }

  /** Frees `handle` with `free` after the garbage collector has freed `resource`. */
  freeWith (resource, free, handle) {
    const reference = resource[kReference]
    registry.register(resource, { references: this.#references, reference, free, handle })
  }

  /** Closes all of them. The base class calls this when the database closes. */
  async close () {
    const resources = Array.from(this.#references, reference => reference.deref())
    await Promise.all(resources.map(resource => resource?.close()))
  }
}

module.exports = { WeakResources }
