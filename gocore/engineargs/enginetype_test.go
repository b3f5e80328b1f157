package engineargs

import (
	"strings"
	"testing"
)

// TestAddEngineType: engine_type accepts an added name, in any case, and its block size is the default.
func TestAddEngineType(t *testing.T) {
	before := engineTypes
	defer func() { engineTypes = before }()
	toy := AddEngineType(TypeSpec{Name: "toy", BlockSize: 24, AnyBlockSize: true})
	args, _, err := Parse(`{"engine_type":"Toy"}`)
	if err != nil || args.EngineType != toy || args.BlockSize != 24 || toy.String() != "toy" {
		t.Errorf("got %v, block_size %d, %v", args.EngineType, args.BlockSize, err)
	}
	if args, _, err := Parse(`{"engine_type":"toy","block_size":7}`); err != nil || args.BlockSize != 7 {
		t.Errorf("got block_size %d, %v", args.BlockSize, err)
	}
	if _, _, err := Parse(`{"engine_type":"tory"}`); err == nil ||
		!strings.Contains(err.Error(), "one of vllm, sglang, trtllm, toy") {
		t.Errorf("got %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a name was given to two types")
		}
	}()
	AddEngineType(TypeSpec{Name: "vllm"})
}
