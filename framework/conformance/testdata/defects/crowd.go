package main

import "context"

// crowd makes concurrent calls overlap, however slow the machine is: the call with the number first waits for the next
// one. Its methods may be called concurrently.
type crowd struct {
	arrived chan int // number of calls so far
	met     chan struct{}
	first   int
}

func newCrowd(first int) *crowd {
	c := &crowd{arrived: make(chan int, 1), met: make(chan struct{}), first: first}
	c.arrived <- 0
	return c
}

func (c *crowd) join(ctx context.Context) {
	number := <-c.arrived + 1
	c.arrived <- number
	switch number {
	case c.first:
		select {
		case <-c.met:
		case <-ctx.Done():
		}
	case c.first + 1:
		close(c.met)
	}
}
