'use strict'

// Packages of the native part, by platform of Node.
const PACKAGES = { 'linux-x64': '@terrace-db/level-linux-x64-gnu' }

/** Loads the native part: the file that a variable names, or the package of this platform. */
function load () {
  const file = process.env.TERRACE_LEVEL_NATIVE
  if (file) return require(file)

  const platform = `${process.platform}-${process.arch}`
  const name = PACKAGES[platform]
  if (name === undefined) {
    const known = Object.keys(PACKAGES).join(', ')
    throw new Error(`terrace-level has no native part for ${platform}. It has one for: ${known} (glibc)`)
  }
  try {
    return require(name)
  } catch (cause) {
    throw new Error(
      `terrace-level cannot load its native part ${name}. Install it without --omit=optional, ` +
      'with the same version as terrace-level. On Linux it needs glibc.',
      { cause }
    )
  }
}

module.exports = load()
