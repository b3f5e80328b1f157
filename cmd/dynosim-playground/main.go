//go:build js

package main

import (
	"fmt"
	"runtime/debug"
	"syscall/js"
	"unsafe"

	"dynosim/gocore/job"
)

// version is that of the release. The linker writes it: make playground.
var version = "0.0.0"

// garbage is how much the heap may grow between two collections, in percent: a collection stops the only thread.
const garbage = 300

func main() {
	debug.SetGCPercent(garbage)
	var ended *job.Result
	js.Global().Set("dynosim", map[string]any{
		"version": version,
		// run carries out a run, see job.Run, and calls back with the kind of the error, "" for none, and a text: its
		// message, or the result.
		"run": js.FuncOf(func(_ js.Value, args []js.Value) any {
			if ended != nil {
				ended.Close()
				ended = nil
			}
			go func() { // it waits for files, which come when JavaScript has its turn
				var kind, text string
				ended, kind, text = run(args[0].String())
				args[1].Invoke(kind, text)
			}()
			return nil
		}),
		// column is a column of numbers of the last run, null if it has no such column.
		"column": js.FuncOf(func(_ js.Value, args []js.Value) any {
			if ended == nil {
				return nil
			}
			if floats, ok := ended.Floats(args[0].String()); ok {
				return array("Float64Array", floats)
			}
			if ints, ok := ended.Ints(args[0].String()); ok {
				return array("BigInt64Array", ints)
			}
			return nil
		}),
		// texts is a column of texts of the last run, null if it has no such column.
		"texts": js.FuncOf(func(_ js.Value, args []js.Value) any {
			if ended == nil {
				return nil
			}
			column, ok := ended.Strings(args[0].String())
			if !ok {
				return nil
			}
			list := make([]any, len(column))
			for i, text := range column {
				list[i] = text
			}
			return list
		}),
	})
	js.Global().Call("dynosimReady")
	select {}
}

// run carries out a run. A panic is an error of the kind "internal": the page goes on.
func run(config string) (result *job.Result, kind, text string) {
	defer func() {
		if fault := recover(); fault != nil {
			result, kind, text = nil, "internal", fmt.Sprint(fault)
		}
	}()
	result, err := job.Run(config, &job.Monitor{})
	if err != nil {
		return nil, job.Kind(err), err.Error()
	}
	return result, "", result.JSON()
}

// array copies numbers into a typed array. WebAssembly is little-endian, as JavaScript's arrays are there.
func array[T float64 | int64](kind string, numbers []T) js.Value {
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(numbers))), 8*len(numbers))
	copied := js.Global().Get("Uint8Array").New(len(bytes))
	js.CopyBytesToJS(copied, bytes)
	return js.Global().Get(kind).New(copied.Get("buffer"))
}
