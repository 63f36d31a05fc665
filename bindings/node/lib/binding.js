'use strict'

const PLATFORMS = ['linux-x64-gnu']

/** Returns the name of this platform in the names of packages. */
function platform () {
  const base = `${process.platform}-${process.arch}`
  if (process.platform !== 'linux') return base
  const { glibcVersionRuntime } = process.report.getReport().header
  return `${base}-${glibcVersionRuntime === undefined ? 'musl' : 'gnu'}`
}

/** Loads the native part: the file that a variable names, or the package of this platform. */
function load () {
  const file = process.env.TERRACE_LEVEL_NATIVE
  if (file) return require(file)

  const name = platform()
  if (!PLATFORMS.includes(name)) {
    throw new Error(`terrace-level has no native part for ${name}. It has one for: ${PLATFORMS.join(', ')}`)
  }
  try {
    return require(`@terrace-db/level-${name}`)
  } catch (cause) {
    throw new Error(
      `terrace-level cannot load its native part @terrace-db/level-${name}. ` +
      'Install it without --omit=optional, with the same version as terrace-level.',
      { cause }
    )
  }
}

module.exports = load()
