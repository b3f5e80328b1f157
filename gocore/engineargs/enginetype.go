package engineargs

import (
	"fmt"
	"slices"
)

// EngineType is the inference engine that is simulated. Package worker has the engine of each type.
type EngineType uint8

// The engine types that are built in.
const (
	VLLM EngineType = iota
	SGLang
	TRTLLM
)

// TypeSpec describes an engine type, as far as its arguments depend on it.
type TypeSpec struct {
	Name      string
	BlockSize int // that block_size 0 stands for
	// AnyBlockSize tells that blocks need not be a power of two from 2 to 1024 tokens.
	AnyBlockSize bool
}

// engineTypes are the specifications of all types, by their numbers. SGLang prefers sglang.page_size to its default.
var engineTypes = []TypeSpec{
	VLLM:   {Name: "vllm", BlockSize: 64},
	SGLang: {Name: "sglang", BlockSize: 1, AnyBlockSize: true},
	TRTLLM: {Name: "trtllm", BlockSize: 32},
}

// AddEngineType makes engine_type accept another name. It is for the init functions of packages that bring an engine
// along, which also add the engine to package worker, and panics if the name is taken.
func AddEngineType(spec TypeSpec) EngineType {
	if slices.Contains(engineTypeNames(), spec.Name) {
		panic(fmt.Sprintf("engineargs: there are two engine types %q", spec.Name))
	}
	engineTypes = append(engineTypes, spec)
	return EngineType(len(engineTypes) - 1)
}

// String returns the name users write.
func (t EngineType) String() string { return engineTypes[t].Name }

func engineTypeNames() []string {
	names := make([]string, len(engineTypes))
	for i, t := range engineTypes {
		names[i] = t.Name
	}
	return names
}
