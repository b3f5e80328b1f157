package sglang

import (
	"fmt"
	"os"
)

var zpass int
var zon = os.Getenv("ZDUMP") != ""

func (s *Scheduler) zdump(what string) {
	if zon {
		fmt.Fprintln(os.Stderr, zpass, what, s.pool.Dump())
	}
}
