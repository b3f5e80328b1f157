//go:build tools

// Package tools keeps the modules that only the build needs in go.mod: gopy's generated code imports gopyh.
package tools

import _ "github.com/go-python/gopy/gopyh"
