package profile

import (
	"fmt"
	"io/fs"
	"math"
	"path"
	"strings"

	"github.com/go-json-experiment/json"

	"dynosim/gocore/timing"
)

// prefillSamples are durations of prompts that had the engine to themselves.
type prefillSamples struct {
	file   string
	isl    []float64
	ttftMs []float64
}

// decodeSamples are durations of decode steps, by the share of the KV pool in use and the length of the sequences.
type decodeSamples struct {
	file          string
	kvUsage       []float64 // 0 to 1
	contextLength []float64
	itlMs         []float64
	maxKVTokens   float64
}

func readPrefill(fsys fs.FS, folder string) (s prefillSamples, err error) {
	if s.file, err = firstOf(fsys, folder, prefillFiles...); err != nil {
		return s, err
	}
	lists, err := readLists(fsys, s.file, "prefill_isl", "prefill_ttft")
	if err != nil {
		return s, in(s.file, err)
	}
	s.isl, s.ttftMs = lists[0], lists[1]
	return s, nil
}

func readDecode(fsys fs.FS, folder string) (s decodeSamples, err error) {
	if s.file, err = firstOf(fsys, folder, decodeFiles...); err != nil {
		return s, err
	}
	const pool = "max_kv_tokens"
	lists, err := readLists(fsys, s.file, "x_kv_usage", "y_context_length", "z_itl", pool)
	if err == nil && len(lists[3]) == 0 {
		err = &timing.TableError{Array: pool, Got: "no value", Want: "one"}
	}
	if err != nil {
		return s, in(s.file, err)
	}
	s.kvUsage, s.contextLength, s.itlMs, s.maxKVTokens = lists[0], lists[1], lists[2], lists[3][0]
	return s, nil
}

// readLists reads arrays of one dimension, or single numbers, from a file of either kind. None has a value that is not
// finite.
func readLists(fsys fs.FS, file string, names ...string) (lists [][]float64, err error) {
	read := jsonLists
	if path.Ext(file) == ".npz" {
		read = npzLists
	}
	if lists, err = read(fsys, file, names); err != nil {
		return nil, err
	}
	for i, list := range lists {
		for at, x := range list {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return nil, &timing.TableError{Array: names[i], Got: fmt.Sprintf("%v at index %d", x, at),
					Want: "finite values"}
			}
		}
	}
	return lists, nil
}

func npzLists(fsys fs.FS, file string, names []string) ([][]float64, error) {
	a, err := openNPZ(fsys, file)
	if err != nil {
		return nil, err
	}
	lists := make([][]float64, len(names))
	for i, name := range names {
		array, err := a.array(name)
		if err != nil {
			return nil, err
		}
		if len(array.shape) > 1 {
			return nil, array.wantDimensions(1)
		}
		lists[i] = array.values
	}
	return lists, nil
}

func jsonLists(fsys fs.FS, file string, names []string) ([][]float64, error) {
	content, err := readFile(fsys, file)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := json.Unmarshal(content, &object); err != nil {
		return nil, err
	}
	lists := make([][]float64, len(names))
	for i, name := range names {
		value, found := object[name]
		if !found {
			return nil, &timing.TableError{Array: name, Got: "nothing", Want: "a list of numbers"}
		}
		elements, isList := value.([]any)
		if !isList {
			elements = []any{value}
		}
		for at, element := range elements {
			x, isNumber := element.(float64)
			if !isNumber {
				return nil, &timing.TableError{Array: name, Got: fmt.Sprintf("%s at index %d", jsonType(element), at),
					Want: "numbers"}
			}
			lists[i] = append(lists[i], x)
		}
	}
	return lists, nil
}

func jsonType(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	default:
		return strings.Replace(fmt.Sprintf("a %T", value), "bool", "boolean", 1)
	}
}
