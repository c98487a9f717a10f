//go:build !race

package backupqueue

// livesInMemory is the number of random lives in memory.
const livesInMemory = 1000
