//go:build race

package backupqueue

// livesInMemory is smaller under the race detector, which slows down lives in one goroutine and finds nothing in them.
const livesInMemory = 300
