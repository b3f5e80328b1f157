//go:build !js

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "error: dynosim-playground runs in browsers: make playground builds it with the page "+
		"around it")
	os.Exit(2)
}
