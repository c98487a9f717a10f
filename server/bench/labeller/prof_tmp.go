package main

import (
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
	"time"
)

func init() {
	if os.Getenv("VELERO_P3PROF") == "" {
		return
	}
	f, _ := os.Create(os.Getenv("VELERO_P3PROF"))
	_ = pprof.StartCPUProfile(f)
	go func() {
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGUSR1)
		select {
		case <-c:
		case <-time.After(12 * time.Second):
		}
		pprof.StopCPUProfile()
		f.Close()
	}()
}
