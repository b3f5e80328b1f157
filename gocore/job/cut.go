package job

import (
	"fmt"
	"strings"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/workload"
)

// cutWarning lists in one line the requests whose outputs the engine ends early because they fill the KV pool or have
// the length of max_model_len; "" if there are none.
func cutWarning(args engineargs.Args, w *workload.Workload) string {
	const shown = 5
	var names []string
	cut := 0
	for i := range w.Len() {
		input, output := w.Lengths(int32(i))
		tokens := args.Output(input, output)
		if tokens == output {
			continue
		}
		if cut++; cut <= shown {
			names = append(names, fmt.Sprintf("%s: %d of %d tokens", w.TurnName(int32(i)), tokens, output))
		}
	}
	if cut > shown {
		names = append(names, fmt.Sprintf("and %d more", cut-shown))
	}
	if cut == 0 {
		return ""
	}
	room := fmt.Sprintf("the KV pool of %d blocks of %d has room for", args.NumGPUBlocks, args.BlockSize)
	if args.MaxModelLen > 0 {
		room = fmt.Sprintf("max_model_len %d leaves", args.MaxModelLen)
	}
	return fmt.Sprintf("%d of %d requests ask for more tokens than %s, and get fewer: %s", cut, w.Len(), room,
		strings.Join(names, "; "))
}
