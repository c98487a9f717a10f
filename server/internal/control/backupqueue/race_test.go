//go:build race

package backupqueue

// livesInMemory is smaller under the race detector, which slows down lives in one goroutine and cannot find races
// there.
const livesInMemory = 100
