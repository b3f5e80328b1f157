// Package border has what the facades of gopy have in common. Each facade is an extension module of its own, with the
// functions that gopy exports to Python: package core (dynamo._core._core) for replays, package live
// (dynamo._core._live) for live workers, whose libraries a replay should not have to load.
//
// A facade names a [Call] by an integer. The rules that follow from gopy:
//
//   - Only int64, string and []byte are passed, with at most one result besides an error. A struct handle that outlives
//     its object would crash Python; an unknown id is an ordinary error here.
//   - A panic must not reach the border. Every exported function and every goroutine recovers.
//   - The work is done on a goroutine of its own, never on that of the calling thread: there the garbage collector
//     could not stop its loops, and Cancel and Progress would hang until the work was over.
//   - Errors reach Python as text only. That text is KIND + "\x1f" + MESSAGE.
//   - Text that is passed must be valid UTF-8 without NUL bytes.
package border
