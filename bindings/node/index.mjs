import terrace from './index.js'

export const { TerraceLevel, ClassicLevel, Level } = terrace
