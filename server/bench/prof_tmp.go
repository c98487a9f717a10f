package main

import (
	"os"
	"runtime/pprof"
	"time"
)

func init() {
	if p := os.Getenv("P3PROF"); p != "" {
		f, _ := os.Create(p)
		_ = pprof.StartCPUProfile(f)
		time.AfterFunc(15*time.Second, func() { pprof.StopCPUProfile(); f.Close() })
	}
}
