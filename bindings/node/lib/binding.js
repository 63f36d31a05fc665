'use strict'

// Packages of the native part, by platform of Node.
const PACKAGES = Object.fromEntries(
  require('./platforms.json').map(platform => [platform, `@terrace-db/level-${platform}`])
)

/** Returns the name of this platform. On Linux, it ends with the kind of C library. */
function currentPlatform () {
  const platform = `${process.platform}-${process.arch}`
  if (process.platform !== 'linux') return platform
  // The report of musl has no version of glibc.
  return `${platform}-${process.report.getReport().header.glibcVersionRuntime ? 'gnu' : 'musl'}`
}

/** Loads the native part: the file that a variable names, or the package of this platform. */
function load () {
  const file = process.env.TERRACE_LEVEL_NATIVE
  if (file) return require(file)

  const platform = currentPlatform()
  const name = PACKAGES[platform]
  if (name === undefined) {
    const known = Object.keys(PACKAGES).join(', ')
    throw new Error(`terrace-level has no native part for ${platform}. It has one for: ${known}`)
  }
  try {
    return require(name)
  } catch (cause) {
    throw new Error(
      `terrace-level cannot load its native part ${name}. Install it without --omit=optional, ` +
      'with the same version as terrace-level.',
      { cause }
    )
  }
}

module.exports = load()
